# UDP for the bench. `serve ADDRESS PORT`: answers each datagram. `trip ADDRESS PORT COUNT`: one datagram at a time, prints the
# mean round trip in microseconds. `blast ADDRESS PORT COUNT`: sends without waiting, prints seconds.
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
connect($socket, sockaddr_in($port, inet_aton($address))) or die "connect: $!";
if ($what eq "trip") {
  setsockopt($socket, SOL_SOCKET, SO_RCVTIMEO, pack("l!l!", 2, 0)) or die "setsockopt: $!";
  for (1 .. 200) { send($socket, "x", 0); defined recv($socket, my $data, 64, 0) or die "no answer" }
  my $start = time;
  for (1 .. $count) { send($socket, "x", 0); defined recv($socket, my $data, 64, 0) or die "no answer" }
  printf "%.3f\n", (time - $start) / $count * 1e6;
} else {
  my $start = time;
  for (1 .. $count) { send($socket, "x", 0) }
  printf "%.6f\n", time - $start;
}
