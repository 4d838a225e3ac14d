# SPDX-License-Identifier: MIT
"""How the comparisons time calls: contenders take turns, and the best turn of each counts."""

import resource
import time
from typing import NamedTuple


class Effort(NamedTuple):
    """How much is measured; seconds."""
    rounds: int
    turn: float        # how long a contender's turn takes at least
    repetition: float  # calls shorter than this are timed several at once
    pause: float       # before a turn: the previous contender's threads stop spinning


FULL = Effort(5, 0.1, 0.005, 0.02)
QUICK = Effort(3, 0.03, 0.002, 0.01)
LONG = 10.0  # seconds; what a first call has to set up is little beside that


def preemptions():
    """How often the system took a CPU away from a thread of ours, so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


class Timing(NamedTuple):
    """A call's mean time over a few calls; disturbed if they did not have their CPUs alone."""
    seconds: float
    disturbed: bool


def time_calls(run, count=1):
    """The Timing of `count` calls in a row."""
    before, start = preemptions(), time.perf_counter()
    for _ in range(count):
        run()
    seconds = (time.perf_counter() - start) / count
    return Timing(seconds, preemptions() > before)


def take_turn(run, guess, effort):
    """The best Timing of a call in one turn; `guess` is the best one so far."""
    time.sleep(effort.pause)
    if guess.seconds < effort.turn:
        run()  # caches, threads that slept
    best, end, first = guess, time.perf_counter() + effort.turn, True
    while first or time.perf_counter() < end:
        best = min(best, time_calls(run, 1 + int(effort.repetition / best.seconds)))
        first = False
    return best


def interleave(calls, best, effort):
    """The best Timing of each call, over rounds in which all take their turns; `best` so far.

    A short call that never had its CPUs alone gets some more rounds; one that takes so long that
    its first time is good enough gets none."""
    start, enough = time.perf_counter(), 2 * effort.rounds * effort.turn * len(calls)
    for turn in range(3 * effort.rounds):
        hope = any(t.disturbed and t.seconds < effort.turn for t in best.values())
        late = turn >= effort.rounds or time.perf_counter() - start > enough
        if turn > 0 and late and not hope:
            break
        for name, run in calls.items():
            if best[name].seconds < LONG:
                best[name] = take_turn(run, best[name], effort)
    return best
