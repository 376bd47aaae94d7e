// Of which kind of object a problem is, and why, as one word each: texts have no bound. In: Problems and their Snapshot. Pure.
import type { Problem } from "../../model/objects.ts";
import type { Snapshot } from "../../model/snapshot.ts";
import { PROBLEM_KINDS, type PROBLEM_REASONS } from "./definitions.ts";

type Kind = (typeof PROBLEM_KINDS)[number];
type Reason = (typeof PROBLEM_REASONS)[number];

export function problemKind({ object }: Problem): Kind {
  const word = /^[^/:]*/.exec(object)?.[0];
  return PROBLEM_KINDS.find((kind) => kind === word) ?? "other";
}

export function problemReason(
  problem: Problem,
  {
    unready,
    host,
    nodes,
    settings,
    served,
  }: Pick<Snapshot, "unready" | "host" | "nodes" | "settings" | "served">,
): Reason {
  const { object, path, text } = problem;
  // Texts about one address begin with it.
  const address = /^[0-9a-f.:]+(?=[: ])/.exec(text)?.[0]?.replace(/:$/, "") ?? "";
  switch (problemKind(problem)) {
    case "file":
      return "unreadable";
    case "kubernetes":
      return "unconfirmed";
    case "host":
      return path === "northbound" ? "northbound" : "host";
    case "EgressIP": {
      if (path !== "status.items" || address === "") return "invalid";
      const refused = unready.find(
        (entry) => entry.address === address && object === `EgressIP/${entry.egressIP.name}`,
      );
      if (refused !== undefined) return refused.contested ? "conflict" : "unservable";
      return host.rivals.some((rival) => rival.address === address) ? "conflict" : "unservable";
    }
    case "Node": {
      const leaves = settings.draining || (nodes.get(settings.node)?.leaving ?? "") !== "";
      return leaves && path === "" && object === `Node/${settings.node}` ? "leaving" : "invalid";
    }
    case "Pod":
      return served.contested.has(address) ? "conflict" : "invalid";
    case "Namespace":
    case "other":
      return "invalid";
  }
}
