// SPDX-License-Identifier: MIT
// Names of status codes, and the version. The names are part of messages such as
// "attend: out of memory", hence lower case and without a full stop.
#include <multihead/base.h>

const char *mh_status_name(mh_status status)
{
    switch (status) {
    case MH_OK:
        return "ok";
    case MH_ERROR_ARGUMENT:
        return "invalid argument";
    case MH_ERROR_UNSUPPORTED:
        return "not supported";
    case MH_ERROR_MEMORY:
        return "out of memory";
    case MH_ERROR_THREAD:
        return "cannot start a thread";
    case MH_ERROR_FILE:
        return "file error";
    case MH_ERROR_FORMAT:
        return "bad file format";
    case MH_ERROR_CANCELLED:
        return "cancelled";
    case MH_ERROR_DIVERGED:
        return "training diverged";
    }
    return "unknown status";
}

const char *mh_version(void) { return MH_VERSION_STRING; }

int mh_version_number(void) { return MH_VERSION_NUMBER; }
