// Runs the agent's commands inside a lab node, started there by scenario-node.ts. In: messages. Out: exit status and text.
// One process for many commands: what each does is what the command line does, without starting Node each time.
import { facts, plan } from "../../agent/commands/plan.ts";
import { runOnce } from "../../agent/commands/run.ts";
import { uninstall } from "../../agent/commands/uninstall.ts";
import { gather, parseConfig, type Texts } from "../../agent/config.ts";

export interface Question {
  readonly id: number;
  readonly command: "plan" | "run" | "facts" | "uninstall";
  readonly flags: Texts;
}

export interface Reply {
  readonly id: number;
  readonly status: number;
  readonly text: string;
}

async function answer({ id, command, flags }: Question): Promise<Reply> {
  let text = "";
  const print = (more: string) => {
    text += more;
  };
  try {
    const config = parseConfig(gather(flags, {}));
    const run = {
      plan: () => plan(config, { output: "text" }, print),
      run: () => runOnce(config, print),
      facts: () => facts(config, print),
      uninstall: () => uninstall(config, { handBack: false }, print),
    };
    return { id, status: await run[command](), text };
  } catch (error) {
    return { id, status: 1, text: `${text}${error instanceof Error ? error.stack : String(error)}` };
  }
}

process.on("message", (question: Question) => {
  void answer(question).then((reply) => process.send?.(reply));
});
process.on("disconnect", () => process.exit());
