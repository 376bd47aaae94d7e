// Hears who says that they have an address of ours. In: addresses, and the links they are on. Out: claims as they are seen.
// One process while there is something to listen for; the kernel hands it nothing but claims, so that it sleeps otherwise.
import type { Follower, follow } from "../exec/index.ts";
import { type Answer, answersIn } from "./claims.ts";
import type { SendFailure } from "./errors.ts";
import { failuresIn } from "./failures.ts";
import { LISTENING, listenLines } from "./perl.ts";

export interface Listener {
  /** Listens for these from now on, and for nothing else; for none of them without a process. */
  watch(addresses: readonly Pick<Answer, "ifindex" | "address">[]): void;
  close(): void;
}

export interface Heard {
  /** Also this host's own other links, where two of them are in one network. At most once a second for each address and MAC. */
  readonly claim: (claim: Answer) => void;
  /** A link that cannot be listened on, as long as it is like that. */
  readonly failed: (failure: SendFailure) => void;
  /** The process ended by itself; it is started again. */
  readonly ended: (why: string) => void;
}

const RESTART_MS = 1000;

// After each look a tenth of a second of rest: a storm of claims costs ten looks a second, and what does not fit in a socket's
// buffer meanwhile is lost. Lines are at most a hundred a second. New sockets are there before the old ones go.
const SCRIPT = `${LISTENING}
$| = 1;
sub most { 100 }
my ($input, $second, @wanted) = ("", 0);
sub command {
  if ($_[0] =~ /^listen ([0-9]+) ([0-9]+) ([0-9, ]+)$/) { push @wanted, [$1, $2, split / /, $3]; return }
  die "unreadable: $_[0]\\n" if $_[0] ne "now";
  take($_) for keys %sockets;
  my %before = %sockets;
  (%sockets, %told) = ();
  listen_on(@$_) for @wanted;
  @wanted = ();
}
while (1) {
  my $ready = waiting();
  vec($ready, 0, 1) = 1;
  next if select($ready, undef, undef, undef) < 1;
  if (time != $second) { $second = time; %seen = () }
  my $heard = 0;
  for my $fd (keys %sockets) { if (vec($ready, $fd, 1)) { take($fd); $heard = 1 } }
  if (vec($ready, 0, 1)) {
    sysread(STDIN, $input, 65536, length $input) or exit 0;
    command($1) while $input =~ s/^(.*)\\n//;
  }
  select(undef, undef, undef, 0.1) if $heard;
}
`;

export function createListener(start: typeof follow, on: Heard): Listener {
  let watched: readonly Pick<Answer, "ifindex" | "address">[] = [];
  let asked = "";
  let process: Follower | undefined;
  let again: NodeJS.Timeout | undefined;
  const heard = (line: string) => {
    for (const claim of answersIn([line], watched)) on.claim(claim);
    for (const failure of failuresIn([line])) on.failed(failure);
  };
  const stop = () => {
    clearTimeout(again);
    again = undefined;
    process?.close();
    process = undefined;
  };
  const open = () => {
    let last = "";
    const line = (text: string) => {
      last = text;
      heard(text);
    };
    const end = (why: string) => {
      process = undefined;
      again = setTimeout(open, RESTART_MS).unref();
      // What perl died of is its last line.
      on.ended(/^(?:seen|failed) |^$/.test(last) ? why : last);
    };
    process = start("perl", ["-e", SCRIPT], { line, end }, { input: true });
    process.write(asked);
  };
  return {
    watch: (addresses) => {
      const lines = addresses.length === 0 ? "" : `${[...listenLines(addresses), "now"].join("\n")}\n`;
      watched = addresses;
      if (lines === asked) return;
      asked = lines;
      if (lines === "") stop();
      else if (process !== undefined) process.write(lines);
      else if (again === undefined) open();
    },
    close: () => {
      asked = "";
      stop();
    },
  };
}
