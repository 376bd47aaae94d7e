// What the OVN lab offers tests besides packets: databases as text, pods that come and go, daemons that hang and die, manifests.
import { existsSync } from "node:fs";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { namespacesOf, takeDown } from "../ovn-lab/down.ts";
import { lines, named, noLab, plan, podOf } from "../ovn-lab/expected.ts";
import { OvnLab } from "../ovn-lab/lab.ts";
import { hashed } from "../ovn-lab/row-parts.ts";
import { ovnNodes } from "../ovn-lab/topology.ts";
import { complaint, Transaction } from "../ovn-lab/transaction.ts";
import { until } from "../support/until.ts";

const prefix = `ovn${process.pid}`;
const reason = noLab();

describe("what rows are made of", () => {
  test("a set's name is a hash of its id", () => {
    expect(hashed("default-network-controller:EgressIP:node-ips:v4:default")).toBe("a712973235162149816");
    expect(hashed("default-network-controller:EgressService:egresssvc-served-pods:v6")).toBe(
      "a13607452020421864338",
    );
  });

  test("a transaction is RFC 7047's JSON, and says what was refused", () => {
    const rows = new Transaction();
    const port = rows.insert("Logical_Switch_Port", { name: "p", options: { a: "b" } });
    rows.insert("Logical_Switch", { name: "s", ports: [port], acls: [] });
    rows.change("Logical_Switch", "t", "ports", "delete", port);
    expect(JSON.parse(rows.text("OVN_Northbound"))).toEqual([
      "OVN_Northbound",
      {
        op: "insert",
        table: "Logical_Switch_Port",
        row: { name: "p", options: ["map", [["a", "b"]]] },
        "uuid-name": "row1",
      },
      {
        op: "insert",
        table: "Logical_Switch",
        row: { name: "s", ports: ["set", [["named-uuid", "row1"]]], acls: ["set", []] },
        "uuid-name": "row2",
      },
      {
        op: "mutate",
        table: "Logical_Switch",
        where: [["name", "==", "t"]],
        mutations: [["ports", "delete", ["named-uuid", "row1"]]],
      },
    ]);
    expect(complaint('[{"uuid":["uuid","x"]},{"count":1}]')).toBeUndefined();
    expect(complaint('[{"error":"constraint violation","details":"no p"},null]')).toBe(
      "constraint violation: no p",
    );
  });
});

describe.skipIf(reason !== undefined)(named("what an OVN lab offers", reason), () => {
  let lab: OvnLab;
  beforeAll(async () => {
    lab = await OvnLab.up({ prefix });
  });
  afterAll(async () => {
    await lab.down();
  });

  test("each node has databases of its own, at paths that a socket may have", async () => {
    const sockets = lab.nodes.flatMap((node) => [
      lab.nbSocket(node),
      lab.sbSocket(node),
      lab.ovsSocket(node),
    ]);
    expect(new Set(sockets).size).toBe(6);
    expect(sockets.filter((path) => !existsSync(path) || path.length >= 107)).toEqual([]);
    expect((await lab.nbctl("node2", "get", "NB_Global", ".", "name")).trim()).toBe("node2");
  });

  test("the Northbound text stays the same until somebody writes, with UUIDs also when a row is made anew", async () => {
    const [before, exact] = [await lab.northbound("node1"), await lab.northbound("node1", { uuids: true })];
    await lab.view(["a2"], ["internet", "b2"]);
    await lab.syncHv();
    expect(await lab.northbound("node1")).toBe(before);
    expect(await lab.northbound("node1", { uuids: true })).toBe(exact);
    const nat = ["snat", "10.244.0.0/16"] as const;
    await lab.nbctl("node1", "lr-nat-del", "GR_node1", ...nat);
    expect(await lab.northbound("node1")).not.toBe(before);
    await lab.nbctl("node1", "lr-nat-add", "GR_node1", "snat", "172.18.0.11", "10.244.0.0/16");
    const found = ["--bare", "--columns=_uuid", "find", "NAT", "logical_ip=10.244.0.0/16"];
    const id = (await lab.nbctl("node1", ...found)).trim();
    await lab.nbctl("node1", "set", "NAT", id, "options:stateless=false");
    expect(await lab.northbound("node1")).toBe(before);
    expect(await lab.northbound("node1", { uuids: true })).not.toBe(exact);
    const only = await lab.northbound("node1", {
      only: (table, row) => table === "NAT" && row["type"] === "snat",
    });
    expect(only.match(/^NAT /gm)).toHaveLength(2);
  });

  test("a pod comes and goes while the lab is up", async () => {
    const before = await Promise.all(
      ovnNodes.slice(0, 2).map((node) => lab.northbound(node, { uuids: true })),
    );
    const pod = await lab.addPod("a9", "node1", 9, { namespace: "play", app: "web", serves: true });
    expect(await lab.view(["a9"], ["internet", "b2"])).toEqual([
      ...lines("a9", "internet", "ext", plan("node1")["br-ex"]),
      ...lines("a9", "b2", "pod b2", pod),
    ]);
    expect(await lab.view(["b2", "a1"], ["a9"])).toEqual([
      ...lines("b2", "a9", "pod a9", podOf(lab, "b2")),
      ...lines("a1", "a9", "pod a9", podOf(lab, "a1")),
    ]);
    expect(await lab.northbound("node2")).toContain(pod[4]);
    await expect(lab.addPod("a9", "node1", 10)).rejects.toThrow(/cannot be called/);
    await lab.removePod("a9");
    expect(
      await Promise.all(ovnNodes.slice(0, 2).map((node) => lab.northbound(node, { uuids: true }))),
    ).toEqual(before);
    expect(await namespacesOf(prefix)).not.toContain(`${prefix}-a9`);
  });

  test("a northd that hangs writes nothing further, and catches up", async () => {
    const northd = lab.daemon("node1", "northd");
    await northd.pause();
    await lab.nbctl("node1", "lr-policy-add", "ovn_cluster_router", "100", "ip4.src == 10.244.1.4", "drop");
    expect(await lab.probe("a2", "ext")).toHaveProperty("source");
    await northd.resume();
    await lab.syncHv("node1");
    expect(await lab.probe("a2", "ext", "udp", 4, 100)).toEqual({ failed: "no answer within 100 ms" });
    await lab.nbctl("node1", "lr-policy-del", "ovn_cluster_router", "100", "ip4.src == 10.244.1.4");
    await lab.syncHv("node1");
  });

  test("a Northbound server that dies comes back with its rows, and packets go on meanwhile", async () => {
    const before = await lab.northbound("node1", { uuids: true });
    const server = lab.daemon("node1", "nb");
    const sender = lab.sender("a2", { rate: 200 });
    await sender.answers(10);
    await server.kill();
    await expect(server.pid()).rejects.toThrow(/does not run/);
    await expect(lab.nbctl("node1", "--timeout=1", "show")).rejects.toThrow(/ovn-nbctl/);
    await sender.answers(20);
    await server.start();
    expect(await lab.northbound("node1", { uuids: true })).toBe(before);
    await lab.syncHv("node1");
    const { sent, answered } = await sender.stop();
    expect(answered).toBe(sent);
  });

  test("its manifests are the examples' objects, with OVN-Kubernetes' annotations", async () => {
    const folder = await mkdtemp(join(tmpdir(), "egressip-manifests-"));
    await lab.writeManifests(folder);
    const read = async (file: string) =>
      parseAllDocuments(await readFile(file, "utf8")).map((document) => document.toJS());
    const examples = new URL("../../packaging/examples/", import.meta.url).pathname;
    expect((await readdir(folder)).sort()).toEqual(["namespaces.yaml", "nodes.yaml", "pods.yaml"]);
    const pods = await read(join(folder, "pods.yaml"));
    for (const pod of pods) {
      expect(pod.metadata.annotations["k8s.ovn.org/pod-networks"]).toContain(pod.status.podIP);
      delete pod.metadata.annotations;
    }
    expect(pods).toEqual(await read(join(examples, "pods.yaml")));
    expect(await read(join(folder, "namespaces.yaml"))).toEqual(
      await read(join(examples, "namespaces.yaml")),
    );
    await rm(folder, { recursive: true });
    const { "br-ex": primary, join: joined, transit, bridgeMac } = plan("node2");
    const annotations = Object.fromEntries(
      Object.entries(lab.nodeAnnotations("node2")).map(([key, value]) => [
        key.replace("k8s.ovn.org/", ""),
        value,
      ]),
    );
    const parsed = (key: string) => JSON.parse(annotations[key] ?? "");
    expect(annotations["zone-name"]).toBe("node2");
    expect(annotations["node-id"]).toBe("3");
    expect(parsed("node-subnets")).toEqual({ default: ["10.244.2.0/24", "fd00:10:244:2::/64"] });
    expect(parsed("l3-gateway-config").default).toMatchObject({ mode: "shared", "mac-address": bridgeMac });
    // What the annotations say is what the Northbound database has.
    const rows = await lab.northbound("node2");
    expect(rows).toContain(`networks=[${joined[4]}/16, ${joined[6]}/64]`);
    expect(parsed("node-gateway-router-lrp-ifaddrs").default).toEqual({
      ipv4: `${joined[4]}/16`,
      ipv6: `${joined[6]}/64`,
    });
    expect(await lab.northbound("node1")).toContain(`nexthop=${transit[4]}`);
    expect(parsed("node-transit-switch-port-ifaddr").ipv4).toBe(`${transit[4]}/16`);
    expect(rows).toContain(`chassis=${annotations["node-chassis-id"]}`);
    expect(parsed("node-primary-ifaddr")).toEqual({ ipv4: `${primary[4]}/24`, ipv6: `${primary[6]}/64` });
  });

  test("a lab of the same prefix is refused, and another process can take it up", async () => {
    await expect(OvnLab.up({ prefix })).rejects.toThrow(/already/);
    const attached = await OvnLab.attach(prefix);
    expect(await attached.probe("b1", "internet", "tcp", 6)).toEqual({
      server: "ext",
      source: plan("node2")["br-ex"][6],
    });
    attached.detach();
    await expect(OvnLab.attach(`${prefix}q`)).rejects.toThrow(/there is no lab/);
  });
});

describe.skipIf(reason !== undefined)(named("taking an OVN lab down", reason), () => {
  test("by its prefix alone leaves no namespace, no process and no file", async () => {
    const other = `${prefix}y`;
    const forgotten = await OvnLab.up({ prefix: other });
    const pids = await Promise.all(
      (["nb", "northd", "vswitchd", "ovn-controller"] as const).map((name) =>
        forgotten.daemon("node1", name).pid(),
      ),
    );
    const folder = forgotten.nbSocket("node1").split("/").slice(0, -2).join("/");
    await takeDown(other);
    // They are dead, and gone once init has taken note.
    await until(() => pids.every((pid) => !existsSync(`/proc/${pid}`)), "its daemons are gone");
    expect(await namespacesOf(other)).toEqual([]);
    expect(existsSync(folder)).toBe(false);
  });

  test("that could not be made leaves nothing either", async () => {
    const other = `${prefix}x`;
    // As if a program were missing: the folder is there, the socket in it cannot be.
    await expect(OvnLab.up({ prefix: `${other}${"x".repeat(80)}` })).rejects.toThrow(/too long/);
    await expect(OvnLab.up({ prefix: other, backend: "neither" as "nft" })).rejects.toThrow(/neither/);
    expect(await namespacesOf(other)).toEqual([]);
    expect(existsSync(join(tmpdir(), other))).toBe(false);
  });
});
