export interface SendFailure {
  readonly ifindex: number;
  /** The system's words, like "Network is down". */
  readonly why: string;
}

/** Frames did not go out. `failures` is empty when not even the sending program could do its work. */
export class SendError extends Error {
  override readonly name = "SendError";
  readonly failures: readonly SendFailure[];

  constructor(why: string, failures: readonly SendFailure[], cause?: unknown) {
    super(`frames not sent: ${why}`, { cause });
    this.failures = failures;
  }
}
