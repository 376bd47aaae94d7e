// `ip -json` output to values. In: text. Out: links, addresses, routes, rules, sorted. Pure.
import { ParseError } from "./errors.ts";
import { ipProtocolName, protocolName, tableName, typeName } from "./names.ts";
import type { Family, Hop, Link, LinkAddress, Route, Rule } from "./types.ts";

type Json = Readonly<Record<string, unknown>>;

function items(command: string, text: string): readonly Json[] {
  let value: unknown;
  try {
    value = text.trim() === "" ? [] : JSON.parse(text);
  } catch (cause) {
    throw new ParseError(command, "not JSON", cause);
  }
  if (!Array.isArray(value)) throw new ParseError(command, "not a JSON array");
  // iproute2 prints {} for an item that a filter left out.
  return value.filter((item): item is Json => isJson(item) && Object.keys(item).length > 0);
}

const text = (value: unknown): string => (typeof value === "string" ? value : "");
const number = (value: unknown): number => (typeof value === "number" ? value : 0);
const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);
const isJson = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const objects = (value: unknown): readonly Json[] => list(value).filter(isJson);
const order = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** `ip -json address show`: links and their addresses come in one listing. Throws ParseError. */
export function parseAddresses(json: string): {
  readonly links: readonly Link[];
  readonly addresses: readonly LinkAddress[];
} {
  const links: Link[] = [];
  const addresses: LinkAddress[] = [];
  for (const item of items("ip address", json)) {
    const name = text(item["ifname"]);
    if (name === "") throw new ParseError("ip address", `a link without ifname: ${shown(item)}`);
    const flags = list(item["flags"]);
    const up = flags.includes("UP");
    links.push({
      index: number(item["ifindex"]),
      name,
      mac: text(item["address"]),
      up,
      running: up && flags.includes("LOWER_UP") && !flags.includes("NO-CARRIER"),
      mtu: number(item["mtu"]),
      master: text(item["master"]),
    });
    for (const info of objects(item["addr_info"])) {
      const address = text(info["local"]);
      if (address === "") continue; // peer-only entries carry no address of ours
      addresses.push({
        link: name,
        family: info["family"] === "inet6" ? 6 : 4,
        address,
        length: number(info["prefixlen"]),
        scope: text(info["scope"]),
        label: text(info["label"]),
        flags: ["dadfailed", "deprecated", "secondary", "temporary", "tentative"].filter(
          (flag) => info[flag] === true,
        ),
      });
    }
  }
  links.sort((a, b) => order(a.name, b.name));
  addresses.sort((a, b) => order(a.link, b.link) || a.family - b.family || order(a.address, b.address));
  return { links, addresses };
}

/** `ip -json -details link show type vrf`: VRFs by name, and the table of each. Throws ParseError. */
export function parseVrfs(json: string): ReadonlyMap<string, string> {
  const tables = new Map<string, string>();
  for (const item of items("ip link", json)) {
    const { linkinfo } = item;
    if (!isJson(linkinfo) || linkinfo["info_kind"] !== "vrf") continue;
    const table = isJson(linkinfo["info_data"]) ? linkinfo["info_data"]["table"] : undefined;
    if (typeof table !== "number") throw new ParseError("ip link", `a VRF without a table: ${shown(item)}`);
    tables.set(text(item["ifname"]), String(table));
  }
  return tables;
}

/** Links with the tables of the VRFs that they are enslaved to, or are. */
export function withVrfs(links: readonly Link[], vrfs: ReadonlyMap<string, string>): readonly Link[] {
  return links.map((link) => {
    const vrf = vrfs.get(link.master) ?? vrfs.get(link.name);
    return vrf === undefined ? link : { ...link, vrf };
  });
}

const NOT_ROUTES = new Set(["local", "broadcast", "multicast", "anycast"]);

/** `ip -json -Numeric -details route show table all`: both families; the kernel's local table and routes with a `tos` are left out. */
export function parseRoutes(json: string): readonly Route[] {
  const routes: Route[] = [];
  for (const item of items("ip route", json)) {
    const type = typeName(text(item["type"]) || "unicast");
    // One for packets of a single type of service is no route to the others, and shares its key with one that is.
    if (NOT_ROUTES.has(type) || item["tos"] !== undefined) continue;
    const nexthops = objects(item["nexthops"]);
    const hops = nexthops.length > 0 ? nexthops.map(hop) : type === "unicast" ? [hop(item)] : [];
    const family = routeFamily(item, hops);
    const written = text(item["dst"]);
    if (written === "") throw new ParseError("ip route", `a route without dst: ${shown(item)}`);
    const metrics = objects(item["metrics"])[0] ?? {};
    routes.push({
      family,
      table: tableName(text(item["table"]) || "main"),
      type,
      destination: written === "default" ? (family === 4 ? "0.0.0.0/0" : "::/0") : written,
      metric: number(item["metric"]),
      protocol: protocolName(text(item["protocol"]) || "boot"),
      hops,
      mtu: number(metrics["mtu"]),
    });
  }
  return routes.sort((a, b) => order(routeKey(a), routeKey(b)));
}

function hop(item: Json): Hop {
  const via = isJson(item["via"]) ? item["via"] : undefined; // RFC 5549: an IPv6 gateway of an IPv4 route
  const weight = number(item["weight"]);
  return {
    gateway: via === undefined ? text(item["gateway"]) : `${text(via["family"])} ${text(via["host"])}`,
    link: text(item["dev"]),
    onlink: list(item["flags"]).includes("onlink"),
    weight: weight === 0 ? 1 : weight,
  };
}

/** Only IPv6 routes carry `pref` in iproute2's listing; `default` alone does not tell the family. */
function routeFamily(item: Json, hops: readonly Hop[]): Family {
  const destination = text(item["dst"]);
  if (destination !== "default") return destination.includes(":") ? 6 : 4;
  if (item["pref"] !== undefined) return 6;
  return hops.some(({ gateway }) => gateway.includes(":") && !gateway.startsWith("inet6 ")) ? 6 : 4;
}

function routeKey(route: Route): string {
  return `${route.table} ${route.family} ${route.destination} ${String(route.metric).padStart(10, "0")} ${route.hops[0]?.link ?? ""}`;
}

/** `ip -json -Numeric rule` of one family. Throws ParseError. */
export function parseRules(json: string, family: Family): readonly Rule[] {
  const rules = items("ip rule", json).map((item): Rule => {
    if (typeof item["priority"] !== "number")
      throw new ParseError("ip rule", `a rule without priority: ${shown(item)}`);
    return {
      family,
      priority: item["priority"],
      table: tableName(text(item["table"])),
      protocol: protocolName(text(item["protocol"])),
      selector: ruleSelector(item),
    };
  });
  return rules.sort(
    (a, b) => a.priority - b.priority || order(a.selector, b.selector) || order(a.table, b.table),
  );
}

/** Named otherwise, or not at all, in what `ip rule add` takes. */
const PAIRS: readonly (readonly [word: string, first: string, second: string, between: string])[] = [
  ["from", "src", "srclen", "/"],
  ["to", "dst", "dstlen", "/"],
  ["fwmark", "fwmark", "fwmask", "/"],
  ["uidrange", "uid_start", "uid_end", "-"],
  ["sport", "sport_start", "sport_end", "-"],
  ["dport", "dport_start", "dport_end", "-"],
  ["realms", "flow_from", "flow_to", "/"],
];
const RENAMED: ReadonlyMap<string, string> = new Map([
  ["flow_to", "realms"],
  ["suppress_prefixlen", "suppress_prefixlength"],
]);
const TOLD_ELSEWHERE = new Set(["priority", "table", "protocol", "action", "iif_detached"]);

/** `not` first and the action last, as the words of `ip rule add` have to stand; everything else by its name. */
function ruleSelector(item: Json): string {
  const words = item["not"] === undefined ? [] : ["not"];
  const told = new Set([...TOLD_ELSEWHERE, "not"]);
  for (const [word, first, second, between] of PAIRS) {
    if (item[first] === undefined) continue;
    told.add(first).add(second);
    if (word === "from" && item[first] === "all") continue;
    const end = item[second] === undefined ? "" : `${between}${plain(item[second])}`;
    words.push(`${word} ${plain(item[first])}${end}`);
  }
  for (const key of Object.keys(item).sort(order)) {
    if (told.has(key)) continue;
    const word = RENAMED.get(key) ?? key;
    const value = key === "ipproto" ? ipProtocolName(plain(item[key])) : plain(item[key]);
    words.push(item[key] === null ? word : `${word} ${value}`);
  }
  if (item["action"] !== undefined) words.push(typeName(plain(item["action"])));
  return words.join(" ");
}

function plain(value: unknown): string {
  return typeof value === "string" || typeof value === "number" ? String(value) : JSON.stringify(value);
}

function shown(item: Json): string {
  return JSON.stringify(item).slice(0, 200);
}
