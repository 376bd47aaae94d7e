// What packaging/kubernetes lets agents do, on a real API server: every verb on every resource that the server has, against what an
// account without any role may do. And the same by real requests, for what matters.
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ApiServer } from "../cluster-lab/api-server.ts";
import { type KubeObject, Refusal, readKustomization, readManifests } from "../cluster-lab/objects.ts";
import { noKubePrograms } from "../support/kube-programs.ts";

const missing = noKubePrograms();
const folder = join(import.meta.dirname, "../../packaging/kubernetes");

interface Discovered {
  readonly resources: readonly { readonly name: string }[];
}

describe.skipIf(missing !== undefined)(
  `what agents may do${missing === undefined ? "" : `: ${missing}`}`,
  () => {
    let api: ApiServer;
    let agent: string;
    let nobody: string;

    beforeAll(async () => {
      api = await ApiServer.up();
      const { objects } = api;
      const account = { namespace: "default", name: "nobody" };
      await objects.apply(
        ...readManifests(join(folder, "crd-egressip.yaml")),
        ...readKustomization(folder),
        { apiVersion: "v1", kind: "ServiceAccount", metadata: account },
        {
          apiVersion: "v1",
          kind: "Node",
          metadata: { name: "node1", annotations: { "example.org/kept": "yes" } },
        },
        ...readManifests(join(folder, "../examples/egressips.yaml")),
      );
      agent = await api.token({ namespace: "egressip-agent", name: "egressip-agent" });
      nobody = await api.token(account);
    });
    afterAll(() => api.close());

    const verbs = [
      "get",
      "list",
      "watch",
      "create",
      "update",
      "patch",
      "delete",
      "deletecollection",
    ] as const;

    /** `VERB RESOURCE[/SUBRESOURCE][.GROUP] in NAMESPACE` */
    const allowed = async (token: string): Promise<ReadonlySet<string>> => {
      const { groups } = (await api.objects.request("GET", "/apis")) as {
        groups: readonly { name: string; preferredVersion: { groupVersion: string } }[];
      };
      const roots = [
        { group: "", path: "/api/v1" },
        ...groups.map(({ name, preferredVersion }) => ({
          group: name,
          path: `/apis/${preferredVersion.groupVersion}`,
        })),
      ];
      const questions: {
        group: string;
        resource: string;
        subresource: string;
        verb: string;
        namespace: string;
      }[] = [];
      for (const { group, path } of roots) {
        const { resources } = (await api.objects.request("GET", path)) as Discovered;
        for (const { name } of resources) {
          const [resource = "", subresource = ""] = name.split("/");
          for (const namespace of ["", "default", "egressip-agent"])
            for (const verb of verbs) questions.push({ group, resource, subresource, verb, namespace });
        }
      }
      const yes = new Set<string>();
      const rest = questions.values();
      const worker = async () => {
        for (const question of rest) {
          const body = {
            apiVersion: "authorization.k8s.io/v1",
            kind: "SelfSubjectAccessReview",
            spec: { resourceAttributes: question },
          };
          const path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
          const answer = (await api.objects.request("POST", path, { body, token })) as {
            status: { allowed: boolean };
          };
          const { verb, resource, subresource, group, namespace } = question;
          const what = `${resource}${subresource && `/${subresource}`}${group && `.${group}`}`;
          if (answer.status.allowed) yes.add(`${verb} ${what} in ${namespace || "all"}`);
        }
      };
      await Promise.all(Array.from({ length: 8 }, worker));
      expect(questions.length).toBeGreaterThan(1_000);
      return yes;
    };

    it("is exactly this, of every verb on every resource", async () => {
      const [ours, anybody] = [await allowed(agent), await allowed(nobody)];
      const everywhere = [
        ...["egressips.k8s.ovn.org", "nodes", "namespaces", "pods"].flatMap((resource) => [
          `list ${resource}`,
          `watch ${resource}`,
        ]),
        "patch nodes",
      ].flatMap((what) => ["all", "default", "egressip-agent"].map((namespace) => `${what} in ${namespace}`));
      expect(new Set([...ours].filter((what) => !anybody.has(what)))).toEqual(
        new Set([...everywhere, "create events in default", "patch events in default"]),
      );
      expect(
        [...anybody].filter(
          (what) => !what.includes("authorization.k8s.io") && !what.includes("authentication"),
        ),
      ).toEqual([]);
    });

    const ask = (
      method: string,
      path: string,
      body?: unknown,
      contentType = "application/merge-patch+json",
    ) =>
      api.objects
        .request(method, path, {
          token: agent,
          ...(body === undefined
            ? {}
            : { body, contentType: method === "POST" ? "application/json" : contentType }),
        })
        .then(
          () => "yes",
          (error: unknown) => (error instanceof Refusal ? error.status : Promise.reject(error as Error)),
        );

    const event = (namespace: string, of: object): KubeObject => ({
      apiVersion: "v1",
      kind: "Event",
      metadata: { namespace, name: "prod.1" },
      ...{ reason: "Programmed", message: "10.10.10.50 is given by node1", type: "Normal" },
      involvedObject: of,
    });
    const ofEgressIP = { apiVersion: "k8s.ovn.org/v1", kind: "EgressIP", name: "prod" };
    const annotations = {
      metadata: { annotations: { "k8s.ovn.org/secondary-host-egress-ips": '["10.10.10.50"]' } },
    };
    const jsonPatch = [
      { op: "add", path: "/metadata/annotations/k8s.ovn.org~1bridge-egress-ips", value: '["172.18.0.60"]' },
    ];

    it.each<[string, string, unknown?, string?]>([
      ["GET", "/apis/k8s.ovn.org/v1/egressips"],
      ["GET", "/api/v1/nodes?limit=500"],
      ["GET", "/api/v1/namespaces"],
      ["GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode1"],
      ["GET", "/api/v1/nodes?fieldSelector=metadata.name%3Dnode1"],
      ["PATCH", "/api/v1/nodes/node1", annotations],
      ["PATCH", "/api/v1/nodes/node1", jsonPatch, "application/json-patch+json"],
      ["POST", "/api/v1/namespaces/default/events", event("default", ofEgressIP)],
      ["PATCH", "/api/v1/namespaces/default/events/prod.1", { count: 2 }],
      ["GET", "/apis"],
      ["GET", "/version"],
    ])("%s %s is done", async (...request) => {
      expect(await ask(...request)).toBe("yes");
    });

    it.each<[string, string, unknown?]>([
      ["GET", "/apis/k8s.ovn.org/v1/egressips/prod"],
      ["PATCH", "/apis/k8s.ovn.org/v1/egressips/prod", { status: { items: [] } }],
      ["DELETE", "/apis/k8s.ovn.org/v1/egressips/prod"],
      ["GET", "/api/v1/nodes/node1"],
      ["PATCH", "/api/v1/nodes/node1/status", { status: { phase: "Terminated" } }],
      ["DELETE", "/api/v1/nodes/node1"],
      ["GET", "/api/v1/namespaces/kube-system/secrets"],
      ["GET", "/api/v1/secrets"],
      [
        "POST",
        "/api/v1/namespaces/egressip-agent/events",
        event("egressip-agent", { kind: "Pod", name: "x", namespace: "egressip-agent" }),
      ],
      ["GET", "/api/v1/namespaces/default/events"],
      ["POST", "/api/v1/namespaces/egressip-agent/serviceaccounts/egressip-agent/token", {}],
      ["GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"],
    ])("%s %s is refused", async (...request) => {
      expect(await ask(...request)).toBe(403);
    });

    it("leaves what else is written on the node", async () => {
      const node = await api.objects.get({ apiVersion: "v1", kind: "Node", metadata: { name: "node1" } });
      expect(node.metadata["annotations"]).toEqual({
        "example.org/kept": "yes",
        "k8s.ovn.org/secondary-host-egress-ips": '["10.10.10.50"]',
        "k8s.ovn.org/bridge-egress-ips": '["172.18.0.60"]',
      });
    });

    it("and what is applied twice is the same", async () => {
      const versions = async () =>
        (await api.objects.apply(...readKustomization(folder))).map(
          ({ metadata }) => metadata["resourceVersion"],
        );
      expect(await versions()).toEqual(await versions());
    });
  },
);
