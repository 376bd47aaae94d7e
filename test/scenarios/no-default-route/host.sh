# A second network that leads nowhere else. Run on node1 before the first step.
set -e
ip -4 route del default dev eth1
ip -6 route del default dev eth1
