// What can become of a request on its way to an API server or back. In: a fault, and where the answer goes. Out: a body that is an
// answer of the API's own kind, or something that takes the server's answer and spoils it.
import type { Call } from "./calls.ts";

/** Answered in the server's place, with a Status object as it would. */
interface RefusedWith {
  readonly status: number;
  /** In seconds. */
  readonly retryAfter?: number;
  readonly reason?: string;
  readonly message?: string;
}

export type Fault =
  | RefusedWith
  /** RST to the client, of the connection with all that is on it. */
  | "reset"
  /** Never answered. */
  | "silence"
  /** The server's answer, without any item. */
  | "empty"
  /** Passed on when this is so. */
  | { readonly until: Promise<unknown> }
  /**
   * The answer ends with half of a line after so many whole ones: of a watch a line is an event. Then RST (of
   * HTTP/2's stream), or an end as if it were all.
   */
  | { readonly linesBeforeCut: number; readonly ending: "reset" | "end" };

/** Takes the server's answer. */
export interface Sink {
  /** It has to be read, so the server must not compress it. */
  readonly plain: boolean;
  /** Of the answer's headers. */
  drops(header: string): boolean;
  /** False: wait for the client. */
  write(chunk: Buffer): boolean;
  end(): void;
}

interface Answer {
  /** `written` when it has left. */
  write(chunk: Buffer | string, written?: () => void): boolean;
  end(): unknown;
}

export function refusal({ status, retryAfter, reason, message }: RefusedWith, call: Call | undefined) {
  const body = {
    kind: "Status",
    apiVersion: "v1",
    metadata: {},
    status: "Failure",
    message:
      message ?? `the fault proxy refuses ${call?.verb ?? "what"} ${call?.resource ?? "it cannot pass on"}`,
    reason: reason ?? REASONS[status] ?? "InternalError",
    code: status,
  };
  return {
    headers: {
      "content-type": "application/json",
      ...(retryAfter === undefined ? {} : { "retry-after": String(retryAfter) }),
    },
    body: JSON.stringify(body),
  };
}

const REASONS: Readonly<Record<number, string>> = {
  401: "Unauthorized",
  403: "Forbidden",
  404: "NotFound",
  409: "Conflict",
  410: "Expired",
  422: "Invalid",
  429: "TooManyRequests",
  500: "InternalError",
  503: "ServiceUnavailable",
  504: "Timeout",
};

export function withFault(fault: Fault | undefined, answer: Answer, reset: () => void): Sink {
  if (fault === "empty") return emptied(answer);
  if (typeof fault === "object" && "linesBeforeCut" in fault) return cutShort(fault, answer, reset);
  return {
    plain: false,
    drops: () => false,
    write: (chunk) => answer.write(chunk),
    end: () => void answer.end(),
  };
}

function emptied(answer: Answer): Sink {
  const chunks: Buffer[] = [];
  return {
    plain: true,
    drops: (header) => header === "content-length",
    write: (chunk) => chunks.push(chunk) > 0,
    end: () => {
      const whole = JSON.parse(Buffer.concat(chunks).toString()) as Record<string, unknown>;
      answer.write(JSON.stringify({ ...whole, items: [] }));
      answer.end();
    },
  };
}

function cutShort(
  { linesBeforeCut, ending }: { readonly linesBeforeCut: number; readonly ending: "reset" | "end" },
  answer: Answer,
  reset: () => void,
): Sink {
  let rest = "";
  let passed = 0;
  let isOver = false;
  const finish = (last: string) => {
    isOver = true;
    answer.write(last, ending === "reset" ? reset : () => void answer.end());
  };
  return {
    plain: true,
    drops: (header) => header === "content-length",
    write: (chunk) => {
      if (isOver) return true;
      const lines = (rest + chunk.toString()).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) {
        if (passed === linesBeforeCut) {
          finish(line.slice(0, line.length / 2));
          return true;
        }
        answer.write(`${line}\n`);
        passed++;
      }
      return true;
    },
    // A list is one line without an end.
    end: () => {
      if (isOver) return;
      finish(passed === linesBeforeCut ? rest.slice(0, rest.length / 2) : rest);
    },
  };
}
