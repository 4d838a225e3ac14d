# SPDX-License-Identifier: MIT
# `multihead train --example numbers`, for two of its eight epochs: by then more than half of the
# numbers that were never shown are right to the letter, at every level.
multihead train -q --example numbers --after 2e -o numbers
sed -n 's/.*"exact": \([0-9.]*\).*/\1/p' numbers/log.jsonl |
    awk 'END { print ($1 > 0.5 ? "learnt" : "exact: " $1) }'
multihead translate -m numbers "deux cent vingt et un" | wc -l
