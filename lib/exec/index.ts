// The only door to host tools: argv in, text out. The only importer of execa.
// Never a shell, always LC_ALL=C, always a deadline; exit status decides, stderr is only carried along
// (iptables warns on stderr with status 0).
import { execa } from "execa";
import { ToolError } from "./errors.ts";
import { createSpawner } from "./spawner.ts";

export { ToolError } from "./errors.ts";

export interface RunOptions {
  /** Text for standard input. */
  readonly input?: string;
  /** Deadline in milliseconds, 30 000 by default; then SIGKILL and a ToolError. */
  readonly timeoutMs?: number;
  /** Exit statuses that are answers, not failures. [0] by default. */
  readonly okExitCodes?: readonly number[];
  /**
   * What the tool prints last when all its work is done: from then on its end is not waited for, in which the kernel may take
   * its time. Without these words the exit status decides, as ever.
   */
  readonly until?: string;
}

export interface RunResult {
  readonly stdout: string;
  readonly stderr: string;
  readonly exitCode: number;
}

/** Runs one tool to its end. Throws ToolError on any other exit status than the allowed ones. */
export type Run = (command: string, args: readonly string[], options?: RunOptions) => Promise<RunResult>;

const spawner = createSpawner();

const counts = new Map<string, number>();

/** How many processes were started so far, by command name. */
export function spawnCounts(): Readonly<Record<string, number>> {
  return Object.fromEntries([...counts].sort(([a], [b]) => (a < b ? -1 : 1)));
}

function count(command: string): void {
  counts.set(command, (counts.get(command) ?? 0) + 1);
}

export const run: Run = async (command, args, options = {}) => {
  const { input, timeoutMs = 30_000, okExitCodes = [0], until = "" } = options;
  const shown = [command, ...args].join(" ");
  count(command);
  const spawned = spawner.spawn([command, ...args], input, timeoutMs, until);
  const result = await spawned.catch((cause: unknown) => {
    throw new ToolError(shown, undefined, "", "could not be run", cause);
  });
  const { stdout, stderr, exitCode } = result;
  if (result.timedOut) throw new ToolError(shown, exitCode, stderr, `no answer within ${timeoutMs} ms`);
  if (!okExitCodes.includes(exitCode))
    throw new ToolError(shown, exitCode, stderr, `exit status ${exitCode}`);
  return { stdout, stderr, exitCode };
};

export interface Follower {
  readonly pid: number | undefined;
  /** Gives the tool text to read, where it was started to be given any; nothing is lost on a tool that has ended. */
  write(text: string): void;
  /** Ends the tool. Nothing is called back any more, `end` included. */
  close(): void;
}

/**
 * Starts a tool that keeps printing (`ip monitor`, `nft monitor`) and calls back for each line, a last unfinished one included.
 * With `input` it reads what is written to it, and the end of that when this process ends, however it does.
 */
export function follow(
  command: string,
  args: readonly string[],
  on: { readonly line: (line: string) => void; readonly end: (why: string) => void },
  { input = false }: { readonly input?: boolean } = {},
): Follower {
  count(command);
  const stdin = input ? "pipe" : "ignore";
  const child = execa(command, args, { reject: false, buffer: false, stdin, env: { LC_ALL: "C" } });
  // A tool that has ended gives EPIPE here; its end is told below.
  child.stdin?.on("error", () => {});
  let closed = false;
  let rest = "";
  child.stdout.setEncoding("utf8");
  child.stdout.on("data", (chunk: string) => {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) if (!closed) on.line(line);
  });
  // iproute2 tells on stderr that it lost events.
  child.stderr.setEncoding("utf8");
  child.stderr.on("data", (chunk: string) => {
    for (const line of chunk.split("\n")) if (!closed && line !== "") on.line(line);
  });
  void child.then((result) => {
    if (!closed && rest !== "") on.line(rest);
    if (!closed) on.end(result.shortMessage ?? `exit status ${result.exitCode}`);
  });
  return {
    pid: child.pid,
    write: (text) => void child.stdin?.write(text),
    close: () => {
      closed = true;
      child.kill("SIGKILL");
    },
  };
}
