// The test's side of client.pl: one long-lived process in a namespace that probes and keeps senders and
// connections. Command words in, JSON messages out. A Node process for each probe would cost 60-100 ms.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const clientScript = fileURLToPath(new URL("client.pl", import.meta.url));

/** What client.pl prints; see its head. */
export interface Message {
  readonly id: number;
  readonly answer?: string;
  readonly failed?: string;
  readonly reached?: true;
  readonly sent?: number;
  readonly runs?: readonly (readonly [first: number, last: number, answer: string | null])[];
  readonly exchanged?: number;
  readonly answers?: readonly string[];
  readonly why?: string | null;
}

export interface Client {
  /** Sends a command under an id of its own; `reply` is the one message that comes back under it. */
  ask(command: string, ...words: readonly (string | number)[]): { id: number; reply: Promise<Message> };
  /** Sends a command that names another one's id and has no reply of its own. */
  tell(command: string, ...words: readonly (string | number)[]): void;
  /** Ends the process; what was asked and not answered fails. */
  close(): void;
}

interface Waiting {
  readonly resolve: (message: Message) => void;
  readonly reject: (error: Error) => void;
}

export function startClient(namespace: string): Client {
  // Fresh senders keep a socket for each datagram that was not answered yet: more than the usual 1 024.
  const command = 'ulimit -n "$(ulimit -Hn)" && exec perl "$0"';
  const child = spawn("ip", ["netns", "exec", namespace, "sh", "-c", command, clientScript], {
    stdio: ["pipe", "pipe", "pipe"],
    env: { ...process.env, LC_ALL: "C" },
  });
  const waiting = new Map<number, Waiting>();
  let lastId = 0;
  let complaint = "";
  let ended: Error | undefined;

  createInterface({ input: child.stdout }).on("line", (line) => {
    const message = JSON.parse(line) as Message;
    waiting.get(message.id)?.resolve(message);
    waiting.delete(message.id);
  });
  child.stderr.on("data", (chunk) => {
    complaint += String(chunk);
  });
  // Writing to a process that is gone; "close" tells why.
  child.stdin.on("error", () => undefined);
  child.on("error", (error) => end(error));
  child.on("close", () => end(new Error(`client in ${namespace} ended: ${complaint.trim()}`)));

  function end(error: Error): void {
    ended ??= error;
    for (const { reject } of waiting.values()) reject(ended);
    waiting.clear();
  }

  function tell(command: string, ...words: readonly (string | number)[]): void {
    child.stdin.write(`${[command, ...words].join(" ")}\n`);
  }

  return {
    tell,
    ask: (command, ...words) => {
      const id = ++lastId;
      const reply = new Promise<Message>((resolve, reject) => {
        if (ended !== undefined) return reject(ended);
        waiting.set(id, { resolve, reject });
      });
      tell(command, id, ...words);
      return { id, reply };
    },
    close: () => {
      child.stdin.end();
    },
  };
}
