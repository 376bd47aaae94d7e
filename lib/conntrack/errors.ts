/** conntrack printed something that we cannot read. */
export class ParseError extends Error {
  override readonly name = "ParseError";
  /** The line, as printed. */
  readonly line: string;

  constructor(why: string, line: string) {
    super(`${why}: ${line.trim().slice(0, 500)}`);
    this.line = line;
  }
}
