// Manifests of any size, as text: N pods spread over M egress IPs. Pure. Pods are in namespaces of their egress IP.

export interface Size {
  readonly pods: number;
  readonly egressIPs: number;
  /** Both families; else IPv4 only. */
  readonly dual: boolean;
  /** Links that the egress IPs are spread over, 1 by default. */
  readonly links?: number;
}

/** Pod addresses of 10.244.0.0/16 and fd00:10:244::/48, from the second /24 on so that the node's own stays free. */
export function podAddresses(index: number, dual: boolean): readonly string[] {
  const high = 2 + Math.floor(index / 250);
  const low = 2 + (index % 250);
  return dual
    ? [`10.244.${high}.${low}`, `fd00:10:244:${high.toString(16)}::${low.toString(16)}`]
    : [`10.244.${high}.${low}`];
}

/** Egress IPs on 10.10.0.0/16 and fd00:10:10::/64, the network of eth1 in the bench; with more links in turn on each one's. */
export function egressAddresses(index: number, dual: boolean, links = 1): readonly string[] {
  const network = 10 + (index % links);
  const n = Math.floor(index / links);
  const four = `10.${network}.${100 + Math.floor(n / 200)}.${1 + (n % 200)}`;
  return dual ? [four, `fd00:10:${network}::${(0x100 + n).toString(16)}`] : [four];
}

export function pod(index: number, { egressIPs, dual }: Size): string {
  const addresses = podAddresses(index, dual);
  return `apiVersion: v1
kind: Pod
metadata:
  name: pod-${index}
  namespace: team-${index % egressIPs}
  uid: 00000000-0000-4000-9000-${String(index).padStart(12, "0")}
  labels:
    app: web
    pod-template-hash: 7c5ddbdf54
spec:
  nodeName: node1
  containers:
  - name: main
    image: registry.example/web:1.2.3
status:
  phase: Running
  hostIP: 10.10.0.11
  podIP: ${addresses[0]}
  podIPs:
${addresses.map((ip) => `  - ip: ${ip}`).join("\n")}
`;
}

/** File name to content. */
export function manifests(size: Size): ReadonlyMap<string, string> {
  const files = new Map<string, string>();
  const each = <T>(count: number, make: (index: number) => T): readonly T[] =>
    Array.from({ length: count }, (_, index) => make(index));
  files.set(
    "cluster.yaml",
    [
      `apiVersion: v1
kind: Node
metadata:
  name: node1
  uid: n1
  annotations:
    k8s.ovn.org/node-primary-ifaddr: '{"ipv4":"172.18.0.11/24","ipv6":"fd00:172:18::11/64"}'
status:
  addresses:
  - type: InternalIP
    address: 172.18.0.11
`,
      ...each(size.egressIPs, (index) => {
        const addresses = egressAddresses(index, size.dual, size.links);
        return `apiVersion: v1
kind: Namespace
metadata:
  name: team-${index}
  uid: ns-${index}
  labels:
    team: t${index}
---
apiVersion: k8s.ovn.org/v1
kind: EgressIP
metadata:
  name: team-${index}
  uid: eip-${index}
  creationTimestamp: "2026-11-01T10:00:00Z"
spec:
  egressIPs: [${addresses.map((ip) => JSON.stringify(ip)).join(", ")}]
  namespaceSelector:
    matchLabels:
      team: t${index}
status:
  items:
${addresses.map((ip) => `  - node: node1\n    egressIP: ${JSON.stringify(ip)}`).join("\n")}
`;
      }),
    ].join("---\n"),
  );
  const perFile = 100;
  for (let start = 0; start < size.pods; start += perFile) {
    const count = Math.min(perFile, size.pods - start);
    files.set(
      `pods-${String(start).padStart(6, "0")}.yaml`,
      each(count, (offset) => pod(start + offset, size)).join("---\n"),
    );
  }
  return files;
}
