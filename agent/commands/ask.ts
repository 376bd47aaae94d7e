// `status`, `list`, `explain`: ask the running daemon through its debug socket and print the answer. `drain`: tells it something.
import { request } from "node:http";
import { stringify } from "yaml";
import type { Drained } from "../telemetry/draining.ts";
import { asTable } from "./table.ts";

export type Output = "table" | "json" | "yaml";

export async function ask(
  socketPath: string,
  path: string,
  output: Output,
  print: (text: string) => void,
  /** Where a table is not what a person reads best. */
  asText: (answer: unknown) => string = asTable,
): Promise<number> {
  const answer = await call(socketPath, "GET", path);
  if (output === "json") print(`${JSON.stringify(answer, undefined, 2)}\n`);
  else print(output === "yaml" ? stringify(answer) : asText(answer));
  return 0;
}

/**
 * Has it give nothing any more, and waits so many seconds at most until nothing is answered for: 0. 1 where something is then, with
 * what and why; throws where nobody listens, as with every question.
 */
export async function drain(
  socketPath: string,
  seconds: number,
  print: (text: string) => void,
): Promise<number> {
  const answer = await call(socketPath, "POST", `/drain?seconds=${seconds}`, (seconds + 5) * 1000);
  const { node, answered, failures } = answer as Drained;
  if (answered.length === 0) {
    print(`no egress IP is answered for on ${node} any more\n`);
    return 0;
  }
  for (const line of answered) print(`still answered for after ${seconds} s: ${line}\n`);
  for (const line of failures) print(`! ${line}\n`);
  return 1;
}

const ANSWER_MS = 10_000;

function call(socketPath: string, method: string, path: string, timeout = ANSWER_MS): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const asking = request({ socketPath, method, path, timeout }, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("end", () => {
        try {
          const answer: unknown = JSON.parse(Buffer.concat(chunks).toString("utf8"));
          if (response.statusCode === 200) resolve(answer);
          else reject(new Error(`${socketPath}: ${String((answer as { error?: unknown } | null)?.error)}`));
        } catch (cause) {
          reject(new Error(`${socketPath}: the answer is not JSON`, { cause }));
        }
      });
    });
    asking.on("timeout", () => asking.destroy(new Error(`no answer within ${timeout / 1000} s`)));
    asking.on("error", (cause) => {
      reject(
        new Error(`${socketPath}: ${cause.message}; is egressip-agent running, with this --debug-socket?`, {
          cause,
        }),
      );
    });
    asking.end();
  });
}
