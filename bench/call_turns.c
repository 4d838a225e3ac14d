// SPDX-License-Identifier: MIT
// The time of one call of mh_attention_forward on tensors of (1, 1, 1, 8), where there is next to
// nothing to compute: what compare_python.py takes off the time of the same call from Python.
//
//     call_turns
//
//     ready
//     ?                        any line
//     0.351                    microseconds, the best of a few runs
#include "base/clock.h"
#include <multihead/multihead.h>
#include <stdio.h>

enum { RUNS = 7, CALLS = 20000, E = 8 };

// Seconds per call; negative after an error.
static double time_calls(mh_context *context)
{
    float values[E] = {1, 2, 3, 4, 5, 6, 7, 8}, result[E];
    const size_t shape[4] = {1, 1, 1, E};
    const mh_tensor x = mh_tensor_view(values, MH_F32, 4, shape);
    mh_tensor out = mh_tensor_view(result, MH_F32, 4, shape);
    double best = -1;
    for (int run = 0; run < RUNS; run++) {
        const double start = mh_clock_seconds();
        for (int i = 0; i < CALLS; i++) {
            const mh_attention_options options = mh_attention_options_default();
            if (mh_attention_forward(context, &options, &x, &x, &x, &out))
                return -1;
        }
        const double seconds = (mh_clock_seconds() - start) / CALLS;
        best = best < 0 || seconds < best ? seconds : best;
    }
    return best;
}

int main(void)
{
    mh_context *context;
    char error[256], line[64];
    if (mh_context_create(NULL, &context, error, sizeof error)) {
        fprintf(stderr, "call_turns: %s\n", error);
        return 1;
    }
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        printf("%.4f\n", 1e6 * time_calls(context));
        fflush(stdout);
    }
    mh_context_free(context);
    return 0;
}
