# SPDX-License-Identifier: MIT
# `multihead serve` with more clients than it can serve, by the model that ships: its sentences take
# long enough to be overtaken.
model=$(dirname "$script")/../../models/fr-en

# serve OPTION...: starts a server; $server is its process, $address where it is.
serve() {
    : >address
    multihead serve -m "$model" --port 0 --threads 1 "$@" >address 2>errors &
    server=$!
    for i in $(seq 600); do
        [ -s address ] && break
        sleep 0.1
    done
    address=$(cat address)
}
ended() { # after a SIGTERM: a second one would end it at once
    wait $server
    echo "exit $?"
    cat errors
}
end() {
    kill $server 2>/dev/null
    ended
}

run multihead serve -m model --queue 129
run multihead serve -m model --timeout 0

echo "# --queue 2"
serve --queue 2 --timeout 600
serve_crowd "$address" burst $server
end

echo "# --queue 0"
serve --queue 0 --timeout 600
serve_crowd "$address" burst $server
end

echo "# --queue 128"
serve --queue 128 --timeout 600
serve_crowd "$address" leave
end

echo "# --timeout 1"
serve --queue 128 --timeout 1
serve_crowd "$address" deadline
end

echo "# 24 descriptors"
descriptors=$(ulimit -n)
ulimit -S -n 24
serve
ulimit -S -n "$descriptors"
serve_crowd "$address" idle $server
end

echo "# SIGTERM"
serve --queue 128 --timeout 600
serve_crowd "$address" stop $server
ended
