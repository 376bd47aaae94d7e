# UDP for the bench. `serve ADDRESS PORT`: answers each datagram. `trip ADDRESS PORT COUNT`: one datagram at a time.
# `blast ADDRESS PORT COUNT`: sends without waiting. `open ADDRESS PORT COUNT`: the same to COUNT ports from PORT on.
# Prints microseconds a datagram: of twenty slices the fifth fastest, since whatever else runs only ever makes one slower.
use strict;
use warnings;
use Socket;
use Time::HiRes qw(time);
my ($what, @args) = @ARGV;
socket(my $socket, PF_INET, SOCK_DGRAM, 0) or die "socket: $!";
if ($what eq "serve") {
  bind($socket, sockaddr_in($args[1], inet_aton($args[0]))) or die "bind: $!";
  $| = 1;
  print "ready\n";
  while (defined(my $peer = recv($socket, my $data, 64, 0))) { send($socket, $data, 0, $peer) }
}
my ($address, $port, $count) = @args;
my ($slices, $chosen) = (20, 4);
my $slice = $count / $slices;
my $to = inet_aton($address);
my $send;
if ($what eq "open") {
  my @peers = map { pack_sockaddr_in($_, $to) } $port .. $port + $count - 1;
  $send = sub { send($socket, "x", 0, shift @peers) };
} else {
  connect($socket, pack_sockaddr_in($port, $to)) or die "connect: $!";
  $send = sub { send($socket, "x", 0) };
}
if ($what eq "trip") {
  setsockopt($socket, SOL_SOCKET, SO_RCVTIMEO, pack("l!l!", 2, 0)) or die "setsockopt: $!";
  my $alone = $send;
  $send = sub { $alone->(); defined recv($socket, my $data, 64, 0) or die "no answer" };
  $send->() for 1 .. 200;
}
my @took;
for (1 .. $slices) {
  my $start = time;
  $send->() for 1 .. $slice;
  push @took, (time - $start) / $slice * 1e6;
}
printf "%.4f\n", (sort { $a <=> $b } @took)[$chosen];
