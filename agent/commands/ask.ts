// `status`, `list`, `explain`: ask the running daemon through its debug socket and print the answer.
import { request } from "node:http";
import { stringify } from "yaml";
import { asTable } from "./table.ts";

export type Output = "table" | "json" | "yaml";

export async function ask(
  socketPath: string,
  path: string,
  output: Output,
  print: (text: string) => void,
): Promise<number> {
  const answer = await get(socketPath, path);
  if (output === "json") print(`${JSON.stringify(answer, undefined, 2)}\n`);
  else print(output === "yaml" ? stringify(answer) : asTable(answer));
  return 0;
}

function get(socketPath: string, path: string): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const call = request({ socketPath, path, timeout: 10_000 }, (response) => {
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
    call.on("timeout", () => call.destroy(new Error("no answer within 10 s")));
    call.on("error", (cause) => {
      reject(
        new Error(`${socketPath}: ${cause.message}; is egressip-agent running, with this --debug-socket?`, {
          cause,
        }),
      );
    });
    call.end();
  });
}
