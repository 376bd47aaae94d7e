/** Text of iptables-save or ipset save that this parser does not know. Never guessed around. */
export class ParseError extends Error {
  override readonly name = "ParseError";
  /** 1-based line of the text. */
  readonly line: number;

  constructor(what: string, line: number, text: string) {
    super(`${what}, line ${line}: ${JSON.stringify(text.slice(0, 200))}`);
    this.line = line;
  }
}
