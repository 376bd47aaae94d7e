// Rules on a node that are not the agent's: kube-proxy's shape of chains and OVN-Kubernetes' masquerade in
// local gateway mode. Node and family in, text for iptables-restore out. Pure.
import {
  apiPort,
  clusterNodePort,
  destinations,
  type Family,
  localNodePort,
  type NodeName,
  nodes,
  outside,
  type PodName,
  podNetworks,
  pods,
  serverPort,
  serviceBackend,
} from "./topology.ts";

const masqueradeBit = "0x4000/0x4000";

export function strangers(node: NodeName, family: Family): string {
  const length = family === 4 ? 32 : 128;
  const target = (address: string, port: number) =>
    family === 4 ? `${address}:${port}` : `[${address}]:${port}`;
  const pod = (name: PodName) => target(pods[name][family], serverPort);

  // What is also masqueraded passes KUBE-MARK-MASQ first, as kube-proxy does it.
  const forward = (chain: string, match: string, port: number, to: string, masqueraded?: "always" | "pods") =>
    ["tcp", "udp"].flatMap((protocol) => {
      const rest = `-p ${protocol} -m ${protocol} --dport ${port}`;
      const source = masqueraded === "pods" ? ` -s ${podNetworks[family]}` : "";
      const mark = `-A ${chain}${source}${match} ${rest} -j KUBE-MARK-MASQ`;
      const lead = `-A ${chain}${match} ${rest} -j DNAT --to-destination ${to}`;
      return masqueraded === undefined ? [lead] : [mark, lead];
    });

  const { service, api } = destinations;
  const server = target(outside.ext.server[family], apiPort);
  const { backend, eth0 } = nodes[node];
  const services = [
    `-A KUBE-SERVICES -d ${api[family]}/${length} -p tcp -m tcp --dport ${api.port} -j DNAT --to-destination ${server}`,
    // A pod's answer would go to another pod directly, past the node that has to translate it back.
    ...forward(
      "KUBE-SERVICES",
      ` -d ${service[family]}/${length}`,
      service.port,
      pod(serviceBackend),
      "always",
    ),
    `-A KUBE-SERVICES -d ${eth0[family]}/${length} -m comment --comment "kubernetes service nodeports" -j KUBE-NODEPORTS`,
  ];
  const nodePorts = [
    ...forward("KUBE-NODEPORTS", "", localNodePort, pod(backend), "pods"),
    ...forward("KUBE-NODEPORTS", "", clusterNodePort, pod(backend), "always"),
  ];

  return [
    "*nat",
    ":KUBE-SERVICES - [0:0]",
    ":KUBE-NODEPORTS - [0:0]",
    ":KUBE-MARK-MASQ - [0:0]",
    ":KUBE-POSTROUTING - [0:0]",
    '-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
    '-A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
    '-A POSTROUTING -m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING',
    ...["eth0", "eth1"].map(
      (link) =>
        `-A POSTROUTING -s ${podNetworks[family]} ! -d ${podNetworks[family]} -o ${link} -j MASQUERADE`,
    ),
    ...services,
    ...nodePorts,
    `-A KUBE-MARK-MASQ -j MARK --set-xmark ${masqueradeBit}`,
    `-A KUBE-POSTROUTING -m mark ! --mark ${masqueradeBit} -j RETURN`,
    "-A KUBE-POSTROUTING -j MARK --set-xmark 0x4000/0x0",
    '-A KUBE-POSTROUTING -m comment --comment "kubernetes service traffic requiring SNAT" -j MASQUERADE',
    "COMMIT",
    "*filter",
    ":KUBE-FORWARD - [0:0]",
    '-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD',
    `-A KUBE-FORWARD -m mark --mark ${masqueradeBit} -j ACCEPT`,
    "-A KUBE-FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
    "COMMIT",
    "",
  ].join("\n");
}
