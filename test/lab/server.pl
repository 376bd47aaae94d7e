#!/usr/bin/perl
# Tells everybody who asks what address they come from: "NAME saw ADDRESS".
# usage: server.pl NAME TCP-PORT[,TCP-PORT...] UDP-PORT ADDRESS...   prints "ready" once it listens.
# TCP: one answer for each line received, for as long as the client likes.
# UDP: one answer for each datagram, followed by what the datagram held, from the address that was asked:
# that is why there is one socket per address (core perl has no recvmsg for IP_PKTINFO).
use strict;
use warnings;
use Socket qw(:all);

my ($name, $tcp_ports, $udp_port, @addresses) = @ARGV;
$SIG{PIPE} = 'IGNORE';
my $SO_RCVBUFFORCE = 33;

my (%on_readable, %socket_of);
my $wanted = '';

sub watch {
  my ($socket, $code) = @_;
  my $fd = fileno $socket;
  ($on_readable{$fd}, $socket_of{$fd}) = ($code, $socket);
  vec($wanted, $fd, 1) = 1;
}

sub forget {
  my ($socket) = @_;
  my $fd = fileno $socket;
  vec($wanted, $fd, 1) = 0;
  delete $on_readable{$fd};
  delete $socket_of{$fd};
  close $socket;
}

sub text_of {
  my ($packed) = @_;
  my $family = sockaddr_family($packed);
  my ($port, $address) = $family == AF_INET ? unpack_sockaddr_in($packed) : unpack_sockaddr_in6($packed);
  my $text = inet_ntop($family, $address);
  $text =~ s/^::ffff:(?=\d+\.)//;
  return $text;
}

sub serve_tcp {
  my ($port) = @_;
  socket(my $listener, AF_INET6, SOCK_STREAM | SOCK_NONBLOCK, 0) or die "socket: $!";
  setsockopt($listener, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  setsockopt($listener, SOL_SOCKET, SO_REUSEADDR, 1);
  bind($listener, pack_sockaddr_in6($port, inet_pton(AF_INET6, '::'))) or die "bind $port: $!";
  listen($listener, 1024) or die "listen: $!";
  watch($listener, sub {
    while (my $peer = accept(my $client, $listener)) { converse($client, $peer) }
  });
}

sub converse {
  my ($client, $peer) = @_;
  $client->blocking(0);
  my $answer = "$name saw " . text_of($peer) . "\n";
  my $received = '';
  watch($client, sub {
    my $got = sysread($client, $received, 65536, length $received);
    return if !defined $got && $!{EAGAIN};
    return forget($client) if !$got;
    while ($received =~ s/^[^\n]*\n//) { syswrite($client, $answer) }
  });
}

sub serve_udp {
  my ($address) = @_;
  my $family = $address =~ /:/ ? AF_INET6 : AF_INET;
  my $packed = inet_pton($family, $address) or die "not an address: $address";
  socket(my $socket, $family, SOCK_DGRAM | SOCK_NONBLOCK, 0) or die "socket: $!";
  setsockopt($socket, SOL_SOCKET, $SO_RCVBUFFORCE, 8 << 20);
  my $local = $family == AF_INET ? pack_sockaddr_in($udp_port, $packed) : pack_sockaddr_in6($udp_port, $packed);
  bind($socket, $local) or die "bind $address: $!";
  watch($socket, sub {
    while (defined(my $peer = recv($socket, my $datagram, 65536, 0))) {
      send($socket, "$name saw " . text_of($peer) . "\n$datagram", 0, $peer);
    }
  });
}

require IO::Handle;
serve_tcp($_) for split /,/, $tcp_ports;
serve_udp($_) for @addresses;
syswrite(STDOUT, "ready\n");

while (1) {
  my $left = select(my $readable = $wanted, undef, undef, undef);
  for my $fd (keys %on_readable) {
    last if $left <= 0;
    next if !vec($readable, $fd, 1);
    $left--;
    # Gone when an earlier one of this round closed it.
    my $code = $on_readable{$fd} or next;
    $code->();
  }
}
