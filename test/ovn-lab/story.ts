// What a demo on real OVN is told on: a stage that is raised while nobody waits yet, and taken down whenever it ends.
// In: how it is raised, the story. Out: what support/story.ts tells.
import type { Agent } from "../support/agent.ts";
import { OvnStage } from "../support/ovn-stage.ts";
import type { Story } from "../support/story.ts";
import type { OvnUpOptions } from "./lab.ts";

interface Stage {
  /** By node. */
  readonly agents: ReadonlyMap<string, Pick<Agent, "said">>;
  down(): Promise<void>;
}

/** On an OVN lab of these options whose agents read manifests. */
export function storyOf(options: OvnUpOptions, show: (stage: OvnStage) => Promise<void>): Story {
  return storyOn(OvnStage.up({ ...DEMO, ...options }), show);
}

/** Names of a demo's namespaces cannot meet those of another. */
export const DEMO = { prefix: `demo${process.pid}` } as const;

export function storyOn<S extends Stage>(raising: Promise<S>, show: (stage: S) => Promise<void>): Story {
  raising.catch(() => undefined);
  let stage: S | undefined;
  return {
    show: async () => {
      stage = await raising;
      await show(stage);
    },
    said: () =>
      [...(stage?.agents ?? [])].map(
        ([node, { said }]) =>
          `last lines of the agent on ${node}:\n${said.trim().split("\n").slice(-15).join("\n")}`,
      ),
    close: async () => {
      const [raised] = await Promise.allSettled([raising]);
      if (raised.status === "fulfilled") await raised.value.down();
    },
  };
}
