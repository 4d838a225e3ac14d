#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: netns.sh BUILD
# Training over TCP: two network namespaces of this machine, joined by a virtual cable, are two
# machines to Open MPI, whose daemon is started in the second in place of ssh. The weights must be
# those of one process, and the gradients must have gone through the cable. Needs root; skipped where
# namespaces are not permitted.
set -u
build=$(cd "${1:?usage: netns.sh BUILD}" && pwd)
multihead=$build/multihead
a=mh-a$$ b=mh-b$$
tmp=$(mktemp -d)
# shellcheck disable=SC2317
clean() { ip netns del $a; ip netns del $b; rm -rf "$tmp"; } 2>/dev/null
trap clean EXIT
skip() { echo "skipped: mpi over TCP: $1"; exit 0; }

[ -e "$build/libmultihead-mpi.so" ] || skip "no libmultihead-mpi"
command -v mpirun.openmpi >/dev/null || skip "no mpirun of Open MPI"
command -v ip >/dev/null || skip "no ip (iproute2)"
{ ip netns add $a && ip netns add $b; } 2>/dev/null || skip "network namespaces are not permitted"
ip link add mha$$ netns $a type veth peer name mhb$$ netns $b 2>/dev/null || skip "no veth"
for side in "$a mha$$ 10.77.0.1" "$b mhb$$ 10.77.0.2"; do
    # shellcheck disable=SC2086
    set -- $side
    ip netns exec "$1" ip addr add "$3/24" dev "$2"
    ip netns exec "$1" ip link set lo up
    ip netns exec "$1" ip link set "$2" up
done

# Called as ssh is: AGENT HOST COMMAND...
cat >"$tmp/agent" <<EOF
#!/bin/sh
shift
exec ip netns exec $b unshare --uts sh -c "hostname mh-b; \$*"
EOF
chmod +x "$tmp/agent"
printf '10.77.0.1 slots=1\n10.77.0.2 slots=1\n' >"$tmp/hosts"

options="--example numbers --batch-tokens 8192 --after 6u --valid-freq 0u --save-freq 3u --threads 1 -q"
# shellcheck disable=SC2086
"$multihead" train $options -o "$tmp/one" || exit 1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# shellcheck disable=SC2086
timeout 120 ip netns exec $a mpirun.openmpi --hostfile "$tmp/hosts" -n 2 --map-by node --bind-to none \
    --mca plm_rsh_agent "$tmp/agent" --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include 10.77.0.0/24 \
    --mca oob_tcp_if_include 10.77.0.0/24 "$multihead" train $options -o "$tmp/two" || {
    echo "mpi over TCP: exit code $?" >&2
    exit 1
}
sent=$(ip netns exec $a cat /sys/class/net/mha$$/statistics/tx_bytes)
one=$(sha256sum <"$tmp/one/model.safetensors") two=$(sha256sum <"$tmp/two/model.safetensors")
size=$(wc -c <"$tmp/one/model.safetensors")
[ "$one" = "$two" ] || {
    echo "mpi over TCP: other weights than those of one process" >&2
    exit 1
}
# half of the gradients and half of the parameters in each update
[ "$sent" -gt $((6 * size)) ] || {
    echo "mpi over TCP: only $sent bytes went through the cable" >&2
    exit 1
}
echo "mpi over TCP: two namespaces, the weights of one process; $sent bytes sent in 6 updates of $size bytes"
