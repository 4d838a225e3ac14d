# SPDX-License-Identifier: MIT
# To be sourced: two network namespaces of this machine, joined by a virtual cable, are two machines
# to Open MPI, whose daemon is started in the second in place of ssh. Needs root.
#
#     namespaces_open DIRECTORY [RATE]   creates them, with files in DIRECTORY; a RATE such as 1gbit
#                                        limits the cable in each direction. Fails with the reason
#                                        in $why if that is not permitted
#     namespaces_run COMMAND...          as mpirun -n 2, a rank in each
#     namespaces_sent                    bytes that the first has sent
#     namespaces_close
namespace_a=mh-a$$ namespace_b=mh-b$$ namespace_files=

namespaces_open()
{
    namespace_files=$1
    why="no mpirun of Open MPI"
    command -v mpirun.openmpi >/dev/null || return 1
    why="no ip (iproute2)"
    command -v ip >/dev/null || return 1
    why="network namespaces are not permitted"
    { ip netns add $namespace_a && ip netns add $namespace_b; } 2>/dev/null || return 1
    why="no veth"
    ip link add mha$$ netns $namespace_a type veth peer name mhb$$ netns $namespace_b 2>/dev/null || return 1
    namespace_side $namespace_a mha$$ 10.77.0.1 "${2:-}" && namespace_side $namespace_b mhb$$ 10.77.0.2 "${2:-}" ||
        return 1
    # Called as ssh is: AGENT HOST COMMAND...
    cat >"$1/agent" <<EOF
#!/bin/sh
shift
exec ip netns exec $namespace_b unshare --uts sh -c "hostname mh-b; \$*"
EOF
    chmod +x "$1/agent"
    printf '10.77.0.1 slots=1\n10.77.0.2 slots=1\n' >"$1/hosts"
}

namespace_side() # NAMESPACE DEVICE ADDRESS RATE
{
    why="the cable cannot be set up"
    ip netns exec "$1" ip addr add "$3/24" dev "$2" && ip netns exec "$1" ip link set lo up &&
        ip netns exec "$1" ip link set "$2" up || return 1
    [ -z "$4" ] && return 0
    why="tc cannot limit the cable's rate"
    ip netns exec "$1" tc qdisc add dev "$2" root tbf rate "$4" burst 256kb latency 20ms
}

namespaces_run()
{
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
        ip netns exec $namespace_a mpirun.openmpi --hostfile "$namespace_files/hosts" -n 2 --map-by node \
        --bind-to none --mca plm_rsh_agent "$namespace_files/agent" --mca pml ob1 --mca btl tcp,self \
        --mca btl_tcp_if_include 10.77.0.0/24 --mca oob_tcp_if_include 10.77.0.0/24 "$@"
}

namespaces_sent() { ip netns exec $namespace_a cat /sys/class/net/mha$$/statistics/tx_bytes; }

namespaces_close() { ip netns del $namespace_a; ip netns del $namespace_b; } 2>/dev/null
