# needs: vrf
# The second network is a VRF's, which also says that there is nothing behind its routes. Run on node1 before the first step.
set -e
ip link add blue index 5 address 02:e1:00:09:00:01 type vrf table 10
ip link set blue up
ip -4 route add unreachable default table 10 metric 4278198272
ip -6 route add unreachable default table 10 metric 4278198272
# IPv6 addresses do not outlive being enslaved.
ip link set eth1 master blue
ip -6 address replace fd00:10:10::11/64 dev eth1 nodad
ip -4 route add default via 10.10.10.1 dev eth1 table 10
ip -6 route add default via fd00:10:10::1 dev eth1 table 10
