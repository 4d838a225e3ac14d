// SPDX-License-Identifier: MIT
// mh_attention_backward against the double reference that test_gradcheck proves: thousands of
// random calls with all options combined freely, any subset of gradients, at every
// instruction-set level; and the size of the error beside that of the plain f32 loops on ordinary
// shapes. test_nasty_grad has numbers that must not leak and calls that make no sense.
//
// A failing case prints its seed; MH_TEST_SEED=<it> MH_TEST_CASES=1 runs it alone.
#include "attention_case.h"
#include "grad_fixture.h"
#include "ref/ref_attention_grad.h"
#include "ref/ref_tensor.h"

#include <inttypes.h>

enum { CASES = 1500, WORK = 250000, MAX_LEVELS = 8 };

// ---- random cases -------------------------------------------------------------------------------

static void report(const attention_case *c, mh_context *context, const char *what)
{
    char text[1024];
    fail_msg("%s at %s, %zu threads: %s\n  MH_TEST_SEED=%" PRIu64 " MH_TEST_CASES=1", what,
             mh_context_isa(context), mh_context_threads(context),
             attention_case_describe(c, text, sizeof text), c->seed);
}

static double run_case(attention_case *c, mh_context *context, const ref_attention_grad *ref)
{
    test_tensor *outputs[] = {&c->dq,     &c->dk,       &c->dv,       &c->dmask[0],
                              &c->dsinks, &c->dmask[1], &c->dmask[2], &c->weights};
    enum { OUTPUTS = sizeof outputs / sizeof *outputs };
    if (mh_attention_forward(context, &c->options, &c->q.view, &c->k.view, &c->v.view,
                             &c->out.view) != MH_OK)
        report(c, context, mh_error_message(context));
    for (size_t i = 0; i < OUTPUTS; i++)
        if (outputs[i]->bytes)
            test_paint(outputs[i]);
    if (mh_attention_backward(context, &c->options, &c->q.view, &c->k.view, &c->v.view,
                              &c->out.view, &c->dout.view, &c->gradients) != MH_OK)
        report(c, context, mh_error_message(context));

    grad_verdict v = grad_judge(&c->gradients, ref);
    if (v.worst > 1) {
        char text[256];
        snprintf(text, sizeof text, "%s[%zu]: found %.9g, expected %.9g, %.3g x the bound", v.what,
                 v.element, v.found, v.expected, v.worst);
        report(c, context, text);
    }
    for (size_t i = 0; i < OUTPUTS; i++)
        if (outputs[i]->bytes && !test_guards_intact(outputs[i]))
            report(c, context, "wrote outside its outputs");
    if (c->weights.bytes && !test_untouched(&c->weights))
        report(c, context, "wrote forward's weights");
    return v.worst;
}

static void random_cases(void **state)
{
    (void)state;
    static attention_case c;
    mh_context *contexts[MAX_LEVELS][2]; // with one thread and with three, taken in turns
    size_t levels = 0, cases = test_cases(CASES);
    double worst[MAX_LEVELS] = {0};
    for (; test_level(levels) && levels < MAX_LEVELS; levels++)
        for (size_t i = 0; i < 2; i++)
            contexts[levels][i] = test_context(test_level(levels), i ? 3 : 1);
    for (size_t n = 0; n < cases; n++) {
        attention_case_create_backward(&c, test_seed() + n, WORK);
        ref_attention_grad ref;
        ref_attention_backward(&c.options, &c.q.view, &c.k.view, &c.v.view, c.out.view.dtype,
                               &c.dout.view, &ref);
        for (size_t level = 0; level < levels; level++)
            worst[level] = fmax(worst[level], run_case(&c, contexts[level][n % 2], &ref));
        ref_attention_grad_free(&ref);
        attention_case_free(&c);
    }
    print_message("%zu cases; largest error / bound:", cases);
    for (size_t level = 0; level < levels; level++) {
        print_message(" %s %.2f", test_level(level), worst[level]);
        mh_context_free(contexts[level][0]);
        mh_context_free(contexts[level][1]);
    }
    print_message("\n");
}

// ---- the error beside the plain loops' ----------------------------------------------------------

// The one largest error is a matter of luck: over 432 sets of 2,048 rows it was 0.9 times the plain
// loops' in the median, but 1.3 in one of twenty and up to 1.8. Hence every shape is drawn until
// it has had ROWS rows, and what counts is the mean of the draws' largest errors (up to 1.2). The
// largest of all is printed, too.
enum { ROWS = 2048 };

// Of dq, dk and dv, sums over the draws so far but for the largest of all.
typedef struct errors {
    double squares[3], max[3], largest[3];
} errors;

static void add_errors(errors *total, const grad_fixture *f, const ref_attention_grad *ref)
{
    const test_tensor *found[] = {&f->dq, &f->dk, &f->dv};
    const ref_gradient *expected[] = {&ref->dq, &ref->dk, &ref->dv};
    for (size_t i = 0; i < 3; i++) {
        test_error e = test_error_of(expected[i]->count, found[i]->view.data, expected[i]->value);
        total->squares[i] += e.rms * e.rms;
        total->max[i] += e.max;
        total->largest[i] = fmax(total->largest[i], e.max);
    }
}

static void draw(grad_fixture *f, size_t seed, mh_context *const *contexts, errors *plain,
                 errors *ours)
{
    size_t length = f->q.view.shape[2], width = f->q.view.shape[3];
    grad_fill(f, seed);
    ref_attention_grad ref = grad_reference(f);
    ref_attention_backward_f32(length, length, width, width, 1 / sqrtf((float)width),
                               f->q.view.data, f->k.view.data, f->v.view.data, f->dout.view.data,
                               f->dq.view.data, f->dk.view.data, f->dv.view.data);
    add_errors(plain, f, &ref);
    for (size_t level = 0; contexts[level]; level++) {
        f->context = contexts[level];
        grad_run(f);
        add_errors(&ours[level], f, &ref);
    }
    ref_attention_grad_free(&ref);
}

// Prints and returns the largest ratio of errors, maximum and root mean square.
static double print_errors(const grad_fixture *f, const char *level, const errors *plain,
                           const errors *ours)
{
    static const char *const what[] = {"dq", "dk", "dv"};
    double worst = 0;
    print_message("T=S=%-4zu E=%-3zu %-7s x the plain loops:", f->q.view.shape[2],
                  f->q.view.shape[3], level);
    for (size_t i = 0; i < 3; i++) {
        double rms = sqrt(ours->squares[i] / plain->squares[i]), max = ours->max[i] / plain->max[i];
        print_message("  %s rms %.2f max %.2f (largest %.1e, %.2f)", what[i], rms, max,
                      ours->largest[i], ours->largest[i] / plain->largest[i]);
        assert_true(isfinite(rms)); // fmax would pass over a NaN
        worst = fmax(worst, fmax(rms, max));
    }
    print_message("\n");
    return worst;
}

static void error_ratio(void **state)
{
    (void)state;
    static const size_t shapes[][2] = {{128, 64},  {256, 64},  {512, 64},
                                       {128, 128}, {256, 128}, {512, 128}};
    mh_context *contexts[MAX_LEVELS + 1] = {NULL};
    double worst = 0;
    for (size_t level = 0; test_level(level) && level < MAX_LEVELS; level++)
        contexts[level] = test_context(test_level(level), 1);
    for (size_t n = 0; n < sizeof shapes / sizeof *shapes; n++) {
        errors plain, ours[MAX_LEVELS];
        memset(&plain, 0, sizeof plain);
        memset(ours, 0, sizeof ours);
        grad_fixture f = grad_setup(NULL, MH_F32, shapes[n][0], shapes[n][0], shapes[n][1]);
        for (size_t i = 0; i < ROWS / shapes[n][0]; i++)
            draw(&f, 1000 * n + i, contexts, &plain, ours);
        for (size_t level = 0; contexts[level]; level++)
            worst = fmax(worst, print_errors(&f, test_level(level), &plain, &ours[level]));
        grad_teardown(&f);
    }
    for (size_t level = 0; contexts[level]; level++)
        mh_context_free(contexts[level]);
    assert_true(worst <= 1.5); // the aim of the project
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_cases),
        cmocka_unit_test(error_ratio),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
