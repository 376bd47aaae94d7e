import type { Answer } from "./claims.ts";

export interface SendFailure {
  readonly ifindex: number;
  /** The system's words, like "Network is down". */
  readonly why: string;
}

/** Frames did not go out. `failures` is empty when not even the sending program could do its work. */
export class SendError extends Error {
  override readonly name = "SendError";
  readonly failures: readonly SendFailure[];
  /** Of a probe: who answered on the other links. */
  readonly answers: readonly Answer[];

  constructor(
    why: string,
    failures: readonly SendFailure[],
    cause?: unknown,
    answers: readonly Answer[] = [],
  ) {
    super(`frames not sent: ${why}`, { cause });
    this.failures = failures;
    this.answers = answers;
  }
}
