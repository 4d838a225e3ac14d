# SPDX-License-Identifier: MIT
# SIGINT, SIGTERM and SIGHUP end a command with exit code 5, and the server with 0; a SIGHUP that is
# ignored from the beginning, as nohup has it, ends nothing.
mkdir model
make_model model 5
mkfifo lines
answered() { until [ -s answers ]; do sleep 0.01; done; }

for signal in INT TERM HUP; do
    : >answers
    env --default-signal=INT multihead translate -m model --threads 1 <lines >answers 2>messages &
    exec 3>lines
    echo "le chat" >&3
    answered # it waits for the next line
    kill -s $signal $!
    wait $!
    echo "$signal: exit $?: $(cat messages)"
    exec 3>&-
done

: >answers
(trap '' HUP && exec multihead translate -m model --threads 1 <lines >answers 2>messages) &
exec 3>lines
echo "le chat" >&3
answered
kill -s HUP $!
exec 3>&- # end of input
wait $!
echo "ignored: exit $?"

: >answers
multihead serve -m model --port 0 --threads 1 >answers 2>messages &
answered
kill -s HUP $!
wait $!
echo "serve: exit $?: $(cat messages)"
