/** Output of iproute2 that this parser does not know. Never guessed around. */
export class ParseError extends Error {
  override readonly name = "ParseError";

  constructor(command: string, what: string, cause?: unknown) {
    super(`${command}: ${what}`, { cause });
  }
}

/** Some lines of one `ip -batch` were refused; the others were carried out. */
export class BatchError extends Error {
  override readonly name = "BatchError";
  readonly failed: readonly { readonly line: string; readonly why: string }[];

  constructor(failed: readonly { readonly line: string; readonly why: string }[]) {
    super(failed.map(({ line, why }) => `ip ${line}: ${why}`).join("; "));
    this.failed = failed;
  }
}
