// Tables and columns of OVN's northbound schema that the agent reads or writes (ovn-nb(5)), and which rows of them. Pure.
import { type Condition, column, defineTable } from "../../lib/ovsdb-client/pure.ts";
import { OWNER_TYPE, setsByName, TYPE_KEY } from "./northbound-ids.ts";

const text = column.string;
const texts = column.set(column.string);
const map = column.map(column.string, column.string);
const external_ids = map;

/** What has been written and what OVN's programs have made of it, as figures. */
export const NbGlobal = defineTable("NB_Global", { nb_cfg: column.integer, hv_cfg: column.integer });

export const LogicalRouter = defineTable("Logical_Router", { name: text });
export const LogicalSwitch = defineTable("Logical_Switch", {
  name: text,
  qos_rules: column.set(column.uuid),
});
export const LogicalRouterPort = defineTable("Logical_Router_Port", { name: text, networks: texts });

/** Rows that say they are for egress IPs, whosever they are. */
const forEgressIPs: Condition = ["external_ids", "includes", { [TYPE_KEY]: OWNER_TYPE }];

export const Policy = defineTable(
  "Logical_Router_Policy",
  { priority: column.integer, match: text, action: text, nexthops: texts, options: map, external_ids },
  { where: [forEgressIPs] },
);

const natColumns = {
  type: text,
  external_ip: text,
  logical_ip: text,
  logical_port: column.optional(column.string),
  options: map,
  match: text,
  external_ids,
} as const;

export const Nat = defineTable("NAT", natColumns, { where: [forEgressIPs] });
/** Where the cluster gives each pod an SNAT row of its own, those are looked at too. */
export const NatOfAll = defineTable("NAT", natColumns, { where: [["type", "==", "snat"]] });

export const Qos = defineTable(
  "QoS",
  {
    priority: column.integer,
    direction: text,
    match: text,
    action: column.map(column.string, column.integer),
    external_ids,
  },
  { where: [forEgressIPs] },
);

export const Acl = defineTable(
  "ACL",
  { priority: column.integer, direction: text, match: text, action: text, external_ids },
  { where: [forEgressIPs] },
);

export const StaticRoute = defineTable(
  "Logical_Router_Static_Route",
  { ip_prefix: text, policy: column.optional(column.string), nexthop: text, external_ids },
  { where: [["policy", "==", "src-ip"]] },
);

const setColumns = { name: text, addresses: texts, external_ids } as const;

export const AddressSet = defineTable("Address_Set", setColumns);
/** What is called as one of ours is looked at whatever else it says: where it is, no other of that name can be made. */
export function addressSetTable(owner: string, node: string) {
  const called = [...setsByName(owner, node).keys()].map((name): Condition => ["name", "==", name]);
  return defineTable("Address_Set", setColumns, { where: [forEgressIPs, ...called] });
}

/** The own management port alone: there is one row a pod beside it. */
export function managementPortTable(node: string) {
  return defineTable(
    "Logical_Switch_Port",
    { name: text, addresses: texts },
    { where: [["name", "==", `k8s-${node}`]] },
  );
}
