// What iproute2 6.1 printed in a network namespace with two veth pairs and a bridge, a line an item; repetitions cut.

/** `ip -json address show` */
export const ADDRESSES = `[
{"ifindex":1,"ifname":"lo","flags":["LOOPBACK","UP","LOWER_UP"],"mtu":65536,"qdisc":"noqueue","operstate":"UNKNOWN","group":"default","txqlen":1000,"link_type":"loopback","address":"00:00:00:00:00:00","broadcast":"00:00:00:00:00:00","addr_info":[{"family":"inet","local":"127.0.0.1","prefixlen":8,"scope":"host","label":"lo","valid_life_time":4294967295,"preferred_life_time":4294967295},{"family":"inet6","local":"::1","prefixlen":128,"scope":"host","valid_life_time":4294967295,"preferred_life_time":4294967295}]},
{"ifindex":3,"link":"peer0","ifname":"eth0","flags":["BROADCAST","MULTICAST","UP","LOWER_UP"],"mtu":1500,"qdisc":"noqueue","operstate":"UP","group":"default","txqlen":1000,"link_type":"ether","address":"d2:3d:7d:d0:12:15","broadcast":"ff:ff:ff:ff:ff:ff","addr_info":[{"family":"inet","local":"172.18.0.11","prefixlen":24,"scope":"global","label":"eth0","valid_life_time":4294967295,"preferred_life_time":4294967295},{"family":"inet","local":"172.18.0.50","prefixlen":32,"scope":"global","label":"eth0","valid_life_time":4294967295,"preferred_life_time":4294967295},{"family":"inet","local":"172.18.0.12","prefixlen":24,"scope":"global","secondary":true,"label":"eth0","valid_life_time":4294967295,"preferred_life_time":4294967295},{"family":"inet6","local":"fd00:172:18::50","prefixlen":128,"scope":"global","nodad":true,"deprecated":true,"noprefixroute":true,"valid_life_time":4294967295,"preferred_life_time":0},{"family":"inet6","local":"fd00:172:18::11","prefixlen":64,"scope":"global","nodad":true,"valid_life_time":4294967295,"preferred_life_time":4294967295},{"family":"inet6","local":"fe80::d03d:7dff:fed0:1215","prefixlen":64,"scope":"link","tentative":true,"valid_life_time":4294967295,"preferred_life_time":4294967295}]},
{"ifindex":4,"link":"eth1","ifname":"peer1","flags":["BROADCAST","MULTICAST","UP","LOWER_UP"],"mtu":1500,"qdisc":"noqueue","master":"b0","operstate":"UP","group":"default","txqlen":1000,"link_type":"ether","address":"fe:61:f3:f4:76:8c","broadcast":"ff:ff:ff:ff:ff:ff","addr_info":[{"family":"inet6","local":"fe80::fc61:f3ff:fef4:768c","prefixlen":64,"scope":"link","tentative":true,"valid_life_time":4294967295,"preferred_life_time":4294967295}]},
{"ifindex":5,"link":"peer1","ifname":"eth1","flags":["BROADCAST","MULTICAST","UP","LOWER_UP"],"mtu":1500,"qdisc":"noqueue","operstate":"UP","group":"default","txqlen":1000,"link_type":"ether","address":"a2:10:36:e3:ac:e7","broadcast":"ff:ff:ff:ff:ff:ff","addr_info":[{"family":"inet","local":"10.10.10.11","prefixlen":24,"scope":"global","label":"eth1:vip","valid_life_time":4294967295,"preferred_life_time":4294967295},{"family":"inet","local":"10.9.0.1","address":"10.9.0.2","prefixlen":32,"scope":"global","label":"eth1","valid_life_time":4294967295,"preferred_life_time":4294967295},{"family":"inet6","local":"fe80::a010:36ff:fee3:ace7","prefixlen":64,"scope":"link","tentative":true,"valid_life_time":4294967295,"preferred_life_time":4294967295}]}
]`;

/** `ip -json -details route show table all`, with the names that -Numeric leaves out: the same routes either way. */
export const ROUTES = `[
{"type":"unicast","dst":"default","gateway":"10.10.10.1","dev":"eth1","table":"1003","protocol":"233","scope":"global","flags":["onlink"],"metrics":[{"mtu":1400}]},
{"type":"blackhole","dst":"default","table":"1003","protocol":"233","scope":"global","metric":4294967295,"flags":[]},
{"type":"throw","dst":"203.0.115.0/24","table":"1003","protocol":"boot","scope":"global","flags":[]},
{"type":"unicast","dst":"default","gateway":"172.18.0.1","dev":"eth0","table":"main","protocol":"boot","scope":"global","metric":100,"flags":[]},
{"type":"unicast","dst":"10.9.0.2","dev":"eth1","table":"main","protocol":"kernel","scope":"link","prefsrc":"10.9.0.1","flags":[]},
{"type":"unicast","dst":"10.10.10.0/24","dev":"eth1","table":"main","protocol":"kernel","scope":"link","prefsrc":"10.10.10.11","flags":[]},
{"type":"unicast","dst":"172.18.0.0/24","dev":"eth0","table":"main","protocol":"kernel","scope":"link","prefsrc":"172.18.0.11","flags":[]},
{"type":"unicast","dst":"192.0.2.0/24","table":"main","protocol":"boot","scope":"global","flags":[],"nexthops":[{"gateway":"172.18.0.1","dev":"eth0","weight":2,"flags":[]},{"gateway":"10.10.10.1","dev":"eth1","weight":1,"flags":[]}]},
{"type":"blackhole","dst":"198.51.100.0/24","table":"main","protocol":"boot","scope":"global","flags":[]},
{"type":"unreachable","dst":"203.0.113.0/24","table":"main","protocol":"boot","scope":"global","metric":5,"flags":[]},
{"type":"prohibit","dst":"203.0.114.0/24","table":"main","protocol":"boot","scope":"global","flags":[]},
{"type":"unicast","dst":"203.0.116.0/24","via":{"family":"inet6","host":"fd00:172:18::1"},"dev":"eth0","table":"main","protocol":"boot","scope":"global","flags":[]},
{"type":"unicast","dst":"203.0.117.7","dev":"eth0","table":"main","protocol":"boot","scope":"link","prefsrc":"172.18.0.11","flags":[]},
{"type":"unicast","dst":"203.0.118.0/24","gateway":"10.10.10.77","dev":"eth1","table":"main","protocol":"boot","scope":"global","flags":[],"metrics":[{"mtu":1300}]},
{"type":"local","dst":"10.9.0.1","dev":"eth1","table":"local","protocol":"kernel","scope":"host","prefsrc":"10.9.0.1","flags":[]},
{"type":"broadcast","dst":"10.10.10.255","dev":"eth1","table":"local","protocol":"kernel","scope":"link","prefsrc":"10.10.10.11","flags":[]},
{"type":"unicast","dst":"default","gateway":"fe80::1","dev":"eth1","table":"77","protocol":"boot","scope":"global","metric":1024,"flags":[],"pref":"medium"},
{"type":"blackhole","dst":"default","dev":"lo","table":"1003","protocol":"233","scope":"global","metric":4294967295,"flags":[],"pref":"medium"},
{"type":"unicast","dst":"default","dev":"eth1","table":"1004","protocol":"233","scope":"global","metric":1024,"flags":[],"pref":"medium"},
{"type":"unicast","dst":"2001:db8:1::/48","table":"main","protocol":"boot","scope":"global","metric":1024,"flags":[],"pref":"medium","nexthops":[{"gateway":"fd00:172:18::1","dev":"eth0","weight":1,"flags":[]},{"gateway":"fd00:172:18::2","dev":"eth0","weight":3,"flags":[]}]},
{"type":"unreachable","dst":"2001:db8:2::/48","dev":"lo","table":"main","protocol":"boot","scope":"global","metric":1024,"flags":[],"pref":"medium"},
{"type":"unicast","dst":"2001:db8:3::/48","gateway":"fe80::1","dev":"eth1","table":"main","protocol":"boot","scope":"global","metric":1024,"flags":["onlink"],"pref":"medium"},
{"type":"unicast","dst":"2001:db8:4::/48","table":"main","protocol":"boot","scope":"global","metric":5,"flags":[],"pref":"medium","nexthops":[{"gateway":"fe80::1","dev":"eth1","weight":1,"flags":[]},{"gateway":"fe80::2","dev":"eth1","weight":1,"flags":[]}]},
{"type":"unicast","dst":"fd00:172:18::/64","dev":"eth0","table":"main","protocol":"kernel","scope":"global","metric":256,"flags":[],"pref":"medium"},
{"type":"unicast","dst":"fe80::/64","dev":"eth0","table":"main","protocol":"kernel","scope":"global","metric":256,"flags":[],"pref":"medium"},
{"type":"unicast","dst":"default","gateway":"fd00:172:18::1","dev":"eth0","table":"main","protocol":"boot","scope":"global","metric":100,"flags":[],"pref":"medium"},
{"type":"multicast","dst":"ff00::/8","dev":"peer0","table":"local","protocol":"kernel","scope":"global","metric":256,"flags":[],"pref":"medium"}
]`;

/** `ip -4 -json rule show`, with names */
export const RULES = `[
{"priority":0,"src":"all","table":"local"},
{"priority":1000,"src":"all","l3mdev":null},
{"priority":6000,"src":"all","fwmark":"0x100000","fwmask":"0x7ff00000","table":"1003","protocol":"233"},
{"priority":6001,"src":"10.244.1.3","table":"1003"},
{"priority":6002,"src":"10.244.0.0","srclen":16,"dst":"192.0.2.0","dstlen":24,"table":"1003"},
{"priority":6003,"src":"all","iif":"eth0","table":"100"},
{"priority":6004,"src":"all","oif":"eth1","uid_start":0,"uid_end":99,"table":"100"},
{"priority":6005,"src":"all","table":"main","suppress_prefixlen":0},
{"priority":6006,"src":"all","goto":7000},
{"priority":6007,"not":null,"src":"all","fwmark":"0xca6c","table":"51820"},
{"priority":6008,"src":"all","dst":"192.0.2.7","tos":"0x10","table":"100"},
{"priority":6009,"src":"all","ipproto":"tcp","sport_start":100,"sport_end":200,"dport":53,"table":"100"},
{"priority":6010,"src":"192.0.2.9","action":"blackhole"},
{"priority":6011,"src":"192.0.2.10","action":"unreachable"},
{"priority":6012,"src":"all","table":"100","suppress_ifgroup":"5"},
{"priority":7000,"src":"all","nop":null},
{"priority":7001,"src":"all","iif":"vanished","iif_detached":null,"table":"100"},
{"priority":7002,"src":"all","fwmark":"0x1","table":"5","flow_from":"3","flow_to":"4"},
{"priority":7003,"src":"all","tun_id":5,"table":"9"},
{"priority":7004,"src":"all","fwmark":"0x1","action":"prohibit"},
{"priority":32766,"src":"all","table":"main"},
{"priority":32767,"src":"all","table":"default"}
]`;

/**
 * `ip -json -details link show type vrf` where there are two, with a link enslaved to each; an item that the filter leaves out
 * is {}. Without IPv6 and the queue figures, which iproute2 prints too.
 */
export const VRFS = `[
{},
{},
{"ifindex":8,"ifname":"b0","flags":["NOARP","MASTER","UP","LOWER_UP"],"mtu":65575,"qdisc":"noqueue","operstate":"UP","linkmode":"DEFAULT","group":"default","txqlen":1000,"link_type":"ether","address":"6e:9c:6f:3e:5b:21","broadcast":"ff:ff:ff:ff:ff:ff","promiscuity":0,"allmulti":0,"min_mtu":1280,"max_mtu":65575,"linkinfo":{"info_kind":"vrf","info_data":{"table":10}},"num_tx_queues":1,"num_rx_queues":1},
{"ifindex":9,"ifname":"mgmt","flags":["NOARP","MASTER"],"mtu":65575,"qdisc":"noop","operstate":"DOWN","linkmode":"DEFAULT","group":"default","txqlen":1000,"link_type":"ether","address":"3a:11:58:d4:0e:7b","broadcast":"ff:ff:ff:ff:ff:ff","promiscuity":0,"allmulti":0,"min_mtu":1280,"max_mtu":65575,"linkinfo":{"info_kind":"vrf","info_data":{"table":1001}},"num_tx_queues":1,"num_rx_queues":1},
{}
]`;
