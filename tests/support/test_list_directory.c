// SPDX-License-Identifier: MIT
// Listing a directory whose reading fails: that is not its end.
#include "support.h"
#include "support/list_directory.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>

static int entries_read, read_error;

// In place of the C library's: ".hidden", "name", and the end or an error.
struct dirent *readdir(DIR *directory)
{
    static const char *const names[] = {".hidden", "name"};
    static struct dirent entry;
    (void)directory;
    if (entries_read == 2) {
        errno = read_error ? read_error : errno;
        return NULL;
    }
    strcpy(entry.d_name, names[entries_read++]);
    return &entry;
}

static void test_reading_fails(void **state)
{
    (void)state;
    mh_context *context = test_context(NULL, 1);
    mh_listing listing;
    entries_read = 0;
    read_error = EIO;
    test_refused(context, mh_list_directory(context, "/tmp", &listing), MH_ERROR_FILE,
                 "/tmp: cannot be read: ");
    entries_read = read_error = 0;
    errno = EINTR; // of an earlier call
    test_ok(context, mh_list_directory(context, "/tmp", &listing));
    assert_int_equal(listing.count, 1);
    assert_string_equal(listing.names[0], "name");
    mh_listing_free(context, &listing);
    mh_context_free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_reading_fails)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
