// A small process that starts tools for us. In: argv and input. Out: exit status, stdout, stderr.
// Why: starting a process copies the page tables of the one that starts it. From an agent of 150 MiB that is 3 ms of its
// only thread, from this perl of 5 MiB a tenth of it, and a round starts a dozen tools. perl-base is Essential on Debian.
import { execa } from "execa";

export interface SpawnedResult {
  /** Exit status; 128 + N for a tool that signal N ended; 127 for one that could not be started. */
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
  readonly timedOut: boolean;
}

export interface Spawner {
  /** `until`: the last words of one who has done his work; his end is then not waited for. "" for none. */
  spawn(
    argv: readonly string[],
    input: string | undefined,
    timeoutMs: number,
    until: string,
  ): Promise<SpawnedResult>;
}

// Frames both ways: length of the rest, then 32-bit numbers in network order and bytes.
// Request:  id, argc, (length, bytes) × argc, length and bytes of the last words, 1 or 0 for input or none, its bytes.
// argc 0: kill job id.
// Response: id, status as waitpid gives it, length and bytes of stdout, length and bytes of stderr.
// One loop over pipes, so that tools run side by side and none of them can block another by talking too much.
const SCRIPT = String.raw`
use strict;
use warnings;
use Fcntl;
my (%jobs, %byfd, $requests);
$requests = "";
pipe(my $woken, my $wake) or die "pipe: $!";
sub nonblocking { fcntl($_[0], F_SETFL, O_NONBLOCK) or die "fcntl: $!" }
# F_SETPIPE_SZ: with the kernel's 64 KiB a tool that takes or gives more would wait for us again and again.
sub roomy { fcntl($_[0], 1031, 1048576) }
nonblocking($wake); nonblocking($woken);
$SIG{CHLD} = sub { syswrite($wake, "x") };
$SIG{PIPE} = "IGNORE"; $SIG{INT} = "IGNORE"; $SIG{TERM} = "IGNORE";
sub start {
  my ($id, $until, $input, @argv) = @_;
  pipe(my $in_r, my $in_w) or die "pipe: $!";
  pipe(my $out_r, my $out_w) or die "pipe: $!";
  pipe(my $err_r, my $err_w) or die "pipe: $!";
  roomy($in_w) if defined $input && length $input > 65536;
  roomy($out_r);
  my $pid = fork();
  die "fork: $!" unless defined $pid;
  if ($pid == 0) {
    $SIG{CHLD} = "DEFAULT"; $SIG{PIPE} = "DEFAULT"; $SIG{INT} = "DEFAULT"; $SIG{TERM} = "DEFAULT";
    close($in_w);
    open(STDIN, "<&", $in_r) && open(STDOUT, ">&", $out_w) && open(STDERR, ">&", $err_w) or exit 127;
    { no warnings; exec { $argv[0] } @argv; }
    syswrite(STDERR, "$argv[0]: $!\n");
    require POSIX; POSIX::_exit(127);
  }
  close($in_r); close($out_w); close($err_w);
  nonblocking($_) for $in_w, $out_r, $err_r;
  my $job = { id => $id, pid => $pid, open => 2, out => "", err => "", input => $input, until => $until, fh => [$in_w, $out_r, $err_r] };
  $jobs{$id} = $job;
  $byfd{fileno($out_r)} = [$job, $out_r, "out"];
  $byfd{fileno($err_r)} = [$job, $err_r, "err"];
  if (defined $input && length $input) { $byfd{fileno($in_w)} = [$job, $in_w, "in"]; feed($job, $in_w) }
  else { close($in_w) }
}
sub done_feeding { my ($job, $fh) = @_; delete $byfd{fileno($fh)}; close($fh) }
sub feed {
  my ($job, $fh) = @_;
  while (length $job->{input}) {
    my $sent = syswrite($fh, $job->{input}, 65536);
    if (!defined $sent) { return if $!{EAGAIN} || $!{EINTR}; last }
    substr($job->{input}, 0, $sent, "");
  }
  done_feeding($job, $fh);
}
sub finish {
  my ($job) = @_;
  my $until = $job->{until};
  my $said = length $until && length $job->{out} >= length $until && substr($job->{out}, -length $until) eq $until;
  return if (!defined $job->{status} || ($job->{open} && !$job->{killed})) && !$said;
  delete $jobs{$job->{id}};
  # What it started itself may hold its pipes open for as long as it likes.
  for my $fd (keys %byfd) { if ($byfd{$fd}[0] == $job) { close($byfd{$fd}[1]); delete $byfd{$fd} } }
  my $body = pack("N N N/a N/a", $job->{id}, $job->{status} // 0, $job->{out}, $job->{err});
  my $frame = pack("N", length $body) . $body;
  while (length $frame) {
    my $sent = syswrite(STDOUT, $frame, 65536);
    if (!defined $sent) { next if $!{EINTR}; exit 0 }
    substr($frame, 0, $sent, "");
  }
}
sub stop {
  my ($job) = @_;
  $job->{killed} = 1;
  if (defined $job->{status}) { finish($job) } else { kill("KILL", $job->{pid}) }
}
sub requests {
  while (length $requests >= 4) {
    my $size = unpack("N", $requests);
    last if length $requests < 4 + $size;
    my ($id, $argc, $rest) = unpack("N N a*", substr($requests, 4, $size));
    substr($requests, 0, 4 + $size, "");
    if ($argc == 0) { stop($jobs{$id}) if $jobs{$id}; next }
    my @words = unpack("(N/a)" . ($argc + 1), $rest);
    my $used = 0; $used += 4 + length $_ for @words;
    my ($marker, $input) = unpack("N a*", substr($rest, $used));
    my $until = pop @words;
    start($id, $until, $marker ? $input : undef, @words);
  }
}
while (1) {
  my ($r, $w) = ("", "");
  vec($r, 0, 1) = 1; vec($r, fileno($woken), 1) = 1;
  for my $fd (keys %byfd) { if ($byfd{$fd}[2] eq "in") { vec($w, $fd, 1) = 1 } else { vec($r, $fd, 1) = 1 } }
  my $ready = select($r, $w, undef, 1);
  if ($ready > 0) {
    sysread($woken, my $ignored, 4096) if vec($r, fileno($woken), 1);
    for my $fd (keys %byfd) {
      my ($job, $fh, $what) = @{$byfd{$fd} || next};
      if ($what eq "in") { feed($job, $fh) if vec($w, $fd, 1); next }
      next unless vec($r, $fd, 1);
      my $got = sysread($fh, $job->{$what}, 262144, length $job->{$what});
      next if !defined $got && ($!{EAGAIN} || $!{EINTR});
      if ($got) { finish($job) if length $job->{until}; next }
      delete $byfd{$fd}; close($fh); $job->{open}--; finish($job);
    }
  }
  while ((my $pid = waitpid(-1, 1)) > 0) {
    my $status = $?;
    for my $job (values %jobs) { if ($job->{pid} == $pid) { $job->{status} = $status; finish($job) } }
  }
  if ($ready > 0 && vec($r, 0, 1)) {
    my $got = sysread(STDIN, $requests, 1048576, length $requests);
    exit 0 if defined $got && $got == 0;
    requests();
  }
}
`;

interface Pending {
  readonly resolve: (result: SpawnedResult) => void;
  readonly reject: (error: Error) => void;
  readonly timer: NodeJS.Timeout;
  timedOut: boolean;
}

/** Starts the process on first use and again when it has died; what was running then is a failure of those calls. */
export function createSpawner(): Spawner {
  let child: ReturnType<typeof startPerl> | undefined;
  let nextId = 1;
  const pending = new Map<number, Pending>();

  const start = (): ReturnType<typeof startPerl> => {
    const started = startPerl();
    let chunks: Buffer[] = [];
    let have = 0;
    let need = 4;
    started.stdout.on("data", (chunk: Buffer) => {
      chunks.push(chunk);
      have += chunk.length;
      // Joined once an answer is complete: joining at each chunk would copy a large one over and over.
      if (have < need) return;
      let rest = chunks.length === 1 ? chunk : Buffer.concat(chunks, have);
      for (need = frameLength(rest); rest.length >= need; need = frameLength(rest)) {
        answer(rest.subarray(4, need));
        rest = rest.subarray(need);
      }
      chunks = [rest];
      have = rest.length;
    });
    // A dead child gives EPIPE here; its end is handled below.
    started.stdin.on("error", () => {});
    const ended = (why: string) => {
      if (child === started) child = undefined;
      for (const [id, job] of pending) {
        pending.delete(id);
        clearTimeout(job.timer);
        job.reject(new Error(`the process that starts tools ended: ${why}`));
      }
    };
    started.then(
      (result) => ended(result.shortMessage ?? `status ${result.exitCode}`),
      (error: unknown) => ended(String(error)),
    );
    return started;
  };

  const answer = (body: Buffer): void => {
    const id = body.readUInt32BE(0);
    const job = pending.get(id);
    if (job === undefined) return;
    pending.delete(id);
    clearTimeout(job.timer);
    const status = body.readUInt32BE(4);
    const outLength = body.readUInt32BE(8);
    const stdout = body.toString("utf8", 12, 12 + outLength);
    const stderr = body.toString("utf8", 16 + outLength);
    const exitCode = (status & 0x7f) === 0 ? status >> 8 : 128 + (status & 0x7f);
    idle();
    job.resolve({ exitCode, stdout, stderr, timedOut: job.timedOut });
  };

  /** Waiting for work must not keep this process alive; waiting for an answer must. */
  const idle = (): void => {
    if (pending.size > 0) return;
    child?.nodeChildProcess.unref();
    unrefable(child?.stdin)?.unref();
    unrefable(child?.stdout)?.unref();
  };
  const busy = (): void => {
    child?.nodeChildProcess.ref();
    unrefable(child?.stdin)?.ref();
    unrefable(child?.stdout)?.ref();
  };

  return {
    spawn: (argv, input, timeoutMs, until) =>
      new Promise((resolve, reject) => {
        child ??= start();
        const id = nextId++;
        const timer = setTimeout(() => {
          const job = pending.get(id);
          if (job === undefined) return;
          job.timedOut = true;
          child?.stdin?.write(request(id, [], undefined, ""));
        }, timeoutMs);
        pending.set(id, { resolve, reject, timer, timedOut: false });
        busy();
        child.stdin?.write(request(id, argv, input, until));
      }),
  };
}

/** Of the frame that begins here; as much as tells its length while that is not known. */
function frameLength(bytes: Buffer): number {
  return bytes.length < 4 ? 4 : 4 + bytes.readUInt32BE(0);
}

function startPerl() {
  return execa("perl", ["-e", SCRIPT], {
    reject: false,
    buffer: false,
    encoding: "buffer",
    stdin: "pipe",
    stderr: "ignore",
    env: { LC_ALL: "C" },
  });
}

function unrefable(stream: unknown): { ref(): void; unref(): void } | undefined {
  return typeof (stream as { unref?: unknown } | undefined)?.unref === "function"
    ? (stream as { ref(): void; unref(): void })
    : undefined;
}

function request(id: number, argv: readonly string[], input: string | undefined, until: string): Buffer {
  const words = argv.length === 0 ? [] : [...argv, until].map((word) => Buffer.from(word));
  const data = Buffer.from(input ?? "");
  const size =
    8 + words.reduce((sum, word) => sum + 4 + word.length, 0) + (argv.length === 0 ? 0 : 4 + data.length);
  const frame = Buffer.allocUnsafe(4 + size);
  let at = frame.writeUInt32BE(size, 0);
  at = frame.writeUInt32BE(id, at);
  at = frame.writeUInt32BE(argv.length, at);
  for (const word of words) {
    at = frame.writeUInt32BE(word.length, at);
    at += word.copy(frame, at);
  }
  if (argv.length > 0) {
    at = frame.writeUInt32BE(input === undefined ? 0 : 1, at);
    data.copy(frame, at);
  }
  return frame;
}
