/** A host tool said no, was not there, or did not finish in time. */
export class ToolError extends Error {
  override readonly name = "ToolError";
  readonly command: string;
  readonly exitCode: number | undefined;
  readonly stderr: string;

  constructor(command: string, exitCode: number | undefined, stderr: string, why: string, cause?: unknown) {
    super(`${command}: ${why}${stderr === "" ? "" : `: ${stderr.trim().slice(0, 2000)}`}`, { cause });
    this.command = command;
    this.exitCode = exitCode;
    this.stderr = stderr;
  }
}
