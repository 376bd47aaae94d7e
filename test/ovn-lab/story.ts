// What a demo on real OVN is told on: a stage that is raised while nobody waits yet, and taken down whenever it ends.
// In: the lab's options, the story. Out: what support/story.ts tells.
import { OvnStage } from "../support/ovn-stage.ts";
import type { Story } from "../support/story.ts";
import type { OvnUpOptions } from "./lab.ts";

export function storyOf(options: OvnUpOptions, show: (stage: OvnStage) => Promise<void>): Story {
  const raising = OvnStage.up({ prefix: `demo${process.pid}`, ...options });
  raising.catch(() => undefined);
  let stage: OvnStage | undefined;
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
