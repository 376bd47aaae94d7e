# Rules, routes, sets and tables of somebody else. Run on node1 before the first step.
set -e
ip route add 192.0.2.0/24 via 172.18.0.100 table 1004
ip route add default via 172.18.0.1 table 200
ip rule add fwmark 0x800/0x800 lookup 200 pref 6000
ip -6 rule add fwmark 0x800/0x800 lookup 200 pref 6000
ip address add 10.10.10.98/32 dev eth1
ipset create egressip-of-others hash:ip
ipset add egressip-of-others 10.244.1.3
nft add table inet egressip-other
nft add chain inet egressip-other forward '{ type filter hook forward priority 0; }'
nft add rule inet egressip-other forward counter
for tool in iptables ip6tables; do
  # Where the strangers of the lab are: rules in both backends would act twice.
  nft list table ip nat 2>/dev/null | grep -q KUBE && tool=$tool-nft || tool=$tool-legacy
  $tool -t mangle -N EGRESSIP-OTHER
  $tool -t mangle -A EGRESSIP-OTHER -m mark --mark 0x1 -j RETURN
  $tool -t mangle -A PREROUTING -j EGRESSIP-OTHER
  $tool -t filter -A FORWARD -m comment --comment "not ours" -j ACCEPT
done
