// A TCP connection that exchanges a line every few milliseconds, to see whether it lives through a change.
import { readAnswer } from "./answer.ts";
import type { Client } from "./client.ts";
import { destinationOf } from "./probe.ts";
import { untilAnswers } from "./sender.ts";
import type { Destination, DestinationName, Family } from "./topology.ts";

export interface ConnectionOptions {
  /** "internet" by default. */
  readonly to?: DestinationName | Destination;
  /** 4 by default. */
  readonly family?: Family;
  /** Milliseconds between an answer and the next line, 10 by default. */
  readonly intervalMs?: number;
}

export interface ConnectionResult {
  /** Lines that were answered. */
  readonly exchanged: number;
  /** Not connected, reset, closed by the server, or the last line stayed unanswered for a second. */
  readonly broken: boolean;
  readonly why: string | undefined;
  /** Each `server/source` seen, sorted. One, for a connection. */
  readonly sources: readonly string[];
}

export interface Connection {
  /** Resolves when `count` more lines were answered; rejects after the deadline, 5 s by default. */
  answers(count: number, deadlineMs?: number): Promise<void>;
  stop(): Promise<ConnectionResult>;
}

export function openConnection(client: Client, options: ConnectionOptions): Connection {
  const { to = "internet", family = 4, intervalMs = 10 } = options;
  const destination = destinationOf(to);
  const { id, reply } = client.ask("connection", destination[family], destination.port, intervalMs);
  reply.catch(() => undefined);
  return {
    answers: (count, deadlineMs) => untilAnswers(client, id, count, undefined, deadlineMs),
    stop: async () => {
      client.tell("stop", id);
      const { exchanged = 0, answers = [], why } = await reply;
      const sources = answers.map((text) => {
        const answer = readAnswer(text);
        return answer === undefined ? text : `${answer.server}/${answer.source}`;
      });
      return { exchanged, broken: typeof why === "string", why: why ?? undefined, sources };
    },
  };
}
