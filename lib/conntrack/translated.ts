// Tracked connections by the address that they are translated to: marked, or ended. In: addresses. Out: how many flows that were.
// conntrack(8) of 1.4.7 does one address a run, -U gives up after a hundred flows with "No buffer space available", since it
// never reads the answers, and -D at a flow that ends by itself; so perl (perl-base is Essential on Debian) speaks to
// ctnetlink, in one process for all.
import type { Run } from "../exec/index.ts";
import { ParseError } from "./errors.ts";
import { type TranslatedChange, translatedLine } from "./pure.ts";

// nfnetlink_conntrack.h: messages are CT_NEW = 0x100, CT_GET = 0x101 and CT_DELETE = 0x102, attributes TUPLE_ORIG = 1,
// TUPLE_REPLY = 2, MARK = 8, ZONE = 18, MARK_MASK = 21; in a tuple the addresses are attribute 1, in those the destination is
// 2 or, of IPv6, 4. A flow is named by its original tuple, copied as it came. ENOENT = 2: it ended meanwhile.
const SCRIPT = `
use strict;
use Socket qw(inet_pton AF_INET AF_INET6);
# Type to value of the attributes between two offsets, without copying what is not asked for.
sub attributes {
  my ($text, $at, $end, %found) = @_;
  while ($at + 4 <= $end) {
    my ($length, $type) = unpack "SS", substr $$text, $at, 4;
    die "unreadable answer\\n" if $length < 4 or $at + $length > $end;
    $found{$type & 0x3fff} = [$at + 4, $at + $length];
    $at += $length + 3 & ~3;
  }
  return \\%found;
}
sub value { my ($text, $span) = @_; return $span && substr $$text, $span->[0], $span->[1] - $span->[0] }
sub attribute { my ($type, $value) = @_; return pack "SSa*x!4", 4 + length $value, $type, $value }
sub message {
  my ($type, $flags, $number, $family, $rest) = @_;
  return pack "LSSLLCCn a*", 20 + length $rest, $type, $flags, $number, 0, $family, 0, 0, $rest;
}
sub open_socket {
  socket(my $socket, 16, 3, 12) or die "NETLINK_NETFILTER socket: $!\\n";
  return $socket;
}
sub receive { defined recv($_[0], my $text, 1 << 18, 0) or die "netlink: $!\\n"; return $text }
sub failed { my $error = -unpack("l", substr $_[0], 16, 4); $! = $error; return $error }
my ($list, $changing) = (open_socket(), open_socket());
my ($number, $done) = (0, 0);
# One write for all; the last asks for an answer, the others are answered only when they fail.
sub carry_out {
  my ($family, @changes) = @_;
  return unless @changes;
  my $first = $number + 1;
  my $text = join "", map { message($_->[0], ++$number == $first + $#changes ? 5 : 1, $number, $family, $_->[1]) } @changes;
  send($changing, $text, 0) or die "netlink: $!\\n";
  $done += @changes;
  while (1) {
    my $answer = receive($changing);
    my $error = failed($answer);
    die "conntrack change: $!\\n" if $error and $error != 2;
    $done-- if $error;
    return if unpack("L", substr $answer, 8, 4) == $number;
  }
}
my %wanted;
while (my $line = <STDIN>) {
  my ($family, $address, $mark, $mask) = $line =~ /^([46]) (\\S+)(?: ([0-9]+) ([0-9]+))?$/ or die "unreadable line $.\\n";
  my $kind = $family == 4 ? AF_INET : AF_INET6;
  my $bytes = inet_pton($kind, $address) or die "not an address: $address\\n";
  $wanted{$kind}{$bytes} = [$mark, $mask];
}
for my $family (sort keys %wanted) {
  my $destination = $family == AF_INET ? 2 : 4;
  send($list, message(0x101, 0x301, 0, $family, ""), 0) or die "netlink: $!\\n";
  my $more = 1;
  while ($more) {
    my ($text, $at, @changes) = (receive($list), 0);
    while ($at + 16 <= length $text) {
      my ($length, $type) = unpack "LS", substr $text, $at, 6;
      last unless $more = $type != 3;
      die "conntrack list: $!\\n" if $type == 2 and failed(substr $text, $at);
      my $flow = attributes(\\$text, $at + 20, $at + $length);
      $at += $length + 3 & ~3;
      next if unpack "N", value(\\$text, $flow->{18}) // "";
      my $reply = attributes(\\$text, @{$flow->{2}});
      my $addresses = attributes(\\$text, @{$reply->{1}});
      my $one = $wanted{$family}{value(\\$text, $addresses->{$destination}) // ""} or next;
      my ($mark, $mask) = @$one;
      my $named = attribute(0x8001, value(\\$text, $flow->{1}));
      if (!defined $mark) { push @changes, [0x102, $named] }
      elsif ((unpack("N", value(\\$text, $flow->{8}) // "\\0\\0\\0\\0") & $mask) != $mark) {
        push @changes, [0x100, $named . attribute(8, pack "N", $mark) . attribute(21, pack "N", $mask)];
      }
    }
    carry_out($family, @changes);
  }
}
print "$done\\n";
`;

/** One spawn. Throws ToolError, ParseError, and RangeError for what is not a mark or not an address. */
export async function changeTranslated(run: Run, changes: readonly TranslatedChange[]): Promise<number> {
  if (changes.length === 0) return 0;
  const input = changes.map((change) => `${translatedLine(change)}\n`).join("");
  const { stdout } = await run("perl", ["-e", SCRIPT], { input });
  if (!/^\d+\n$/.test(stdout)) throw new ParseError("it is not said how many flows were changed", stdout);
  return Number(stdout);
}
