// A stream of numbered datagrams, each answered with who saw it coming from where: tells to the packet when a
// path changed and what was lost meanwhile.
import { readAnswer } from "./answer.ts";
import type { Client, Message } from "./client.ts";
import { destinationOf } from "./probe.ts";
import type { Destination, DestinationName, Family } from "./topology.ts";

export interface SenderOptions {
  /** "internet" by default. */
  readonly to?: DestinationName | Destination;
  /** 4 by default. */
  readonly family?: Family;
  /** Datagrams a second, 1 000 by default. */
  readonly rate?: number;
  /** A source port, thus a new flow, for each datagram; else all come from one socket. */
  readonly fresh?: boolean;
}

/** Datagrams first..last, by sequence number, had this answer; `answer` undefined: none. */
export interface SenderRun {
  readonly first: number;
  readonly last: number;
  readonly answer: string | undefined;
}

export interface SenderResult {
  readonly sent: number;
  readonly answered: number;
  /** `server/source` to how many. */
  readonly bySource: ReadonlyMap<string, number>;
  /** In sending order; neighbours differ. One run on a path that never changed and lost nothing. */
  readonly timeline: readonly SenderRun[];
}

export interface Sender {
  /**
   * Resolves when `count` more answers have come, from whomever or only those that saw this source.
   * Rejects after the deadline, 5 s by default.
   */
  answers(count: number, source?: string, deadlineMs?: number): Promise<void>;
  /** How many datagrams were sent so far: the next one has this sequence number. */
  sent(): Promise<number>;
  /** Stops sending, waits up to a second for answers under way. */
  stop(): Promise<SenderResult>;
}

export function startSender(client: Client, options: SenderOptions): Sender {
  const { to = "internet", family = 4, rate = 1_000, fresh = false } = options;
  const destination = destinationOf(to);
  const microseconds = Math.round(1_000_000 / rate);
  const words = [destination[family], destination.port, microseconds, fresh ? "fresh" : "one"];
  const { id, reply } = client.ask("sender", ...words);
  // A client that died before stop() was called; stop() will say so.
  reply.catch(() => undefined);
  return {
    answers: (count, source, deadlineMs) => untilAnswers(client, id, count, source, deadlineMs),
    sent: async () => (await client.ask("sent", id).reply).sent ?? 0,
    stop: async () => {
      client.tell("stop", id);
      return resultOf(await reply);
    },
  };
}

function resultOf({ sent = 0, runs = [] }: Message): SenderResult {
  const timeline = runs.map(([first, last, text]): SenderRun => {
    const answer = text === null ? undefined : readAnswer(text);
    return { first, last, answer: answer && `${answer.server}/${answer.source}` };
  });
  const bySource = new Map<string, number>();
  for (const { first, last, answer } of timeline)
    if (answer !== undefined) bySource.set(answer, (bySource.get(answer) ?? 0) + last - first + 1);
  const answered = [...bySource.values()].reduce((sum, count) => sum + count, 0);
  return { sent, answered, bySource, timeline };
}

/** Shared with connections: client.pl counts a task's answers. */
export async function untilAnswers(
  client: Client,
  task: number,
  count: number,
  source: string | undefined,
  deadlineMs = 5_000,
): Promise<void> {
  const { reply } = client.ask("until", task, count, ...(source === undefined ? [] : [source]));
  const { promise: tooLate, reject } = Promise.withResolvers<never>();
  const what = `${count} answers${source === undefined ? "" : ` that saw ${source}`}`;
  const timer = setTimeout(() => reject(new Error(`no ${what} within ${deadlineMs} ms`)), deadlineMs);
  await Promise.race([reply, tooLate]).finally(() => clearTimeout(timer));
}
