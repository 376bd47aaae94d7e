#!/usr/bin/perl
# Asks the lab's servers who they are and what address they saw. One of these lives in each namespace that asks.
# Commands on stdin, JSON lines with the command's id on stdout; it ends with its stdin.
#   probe ID tcp|udp ADDRESS PORT MS          {"id":1,"answer":"ext saw 172.18.0.11"} or {"id":1,"failed":"..."}
#   sender ID ADDRESS PORT MICROSECONDS fresh|one
#   connection ID ADDRESS PORT MS             both go on until they are stopped
#   until ID TASK COUNT [SOURCE]              {"id":2,"reached":true} after COUNT more answers (that saw SOURCE)
#   sent ID TASK                              {"id":3,"sent":17} datagrams so far
#   stop TASK                                 what it found, under the task's own id
use strict;
use warnings;
use Socket qw(:all);
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);
require IO::Handle;

my $SO_RCVBUFFORCE = 33;
my $GRACE = 1;    # seconds a stopped sender waits for answers that are under way
$SIG{PIPE} = 'IGNORE';
STDOUT->autoflush(1);

# ---- a small event loop: sockets and timers -----------------------------------------------------
my (%on_readable, %on_writable, %timers);
my ($readers, $writers, $timer_count) = ('', '', 0);

sub now { clock_gettime(CLOCK_MONOTONIC) }

sub watch {
  my ($socket, $code) = @_;
  $on_readable{ fileno $socket } = $code;
  vec($readers, fileno $socket, 1) = 1;
}

sub watch_writable {
  my ($socket, $code) = @_;
  $on_writable{ fileno $socket } = $code;
  vec($writers, fileno $socket, 1) = 1;
}

sub unwatch_writable {
  my ($fd) = @_;
  delete $on_writable{$fd};
  vec($writers, $fd, 1) = 0;
}

sub drop {
  my ($socket) = @_;
  my $fd = fileno $socket;
  return if !defined $fd;
  unwatch_writable($fd);
  delete $on_readable{$fd};
  vec($readers, $fd, 1) = 0;
  close $socket;
}

sub at {
  my ($when, $code) = @_;
  $timers{ ++$timer_count } = [$when, $code];
  return $timer_count;
}

sub turn {
  my $next;
  for my $timer (values %timers) { $next = $timer->[0] if !defined $next || $timer->[0] < $next }
  my $wait = defined $next ? $next - now() : undef;
  $wait = 0 if defined $wait && $wait < 0;
  my $ready = select(my $r = $readers, my $w = $writers, undef, $wait);
  if ($ready > 0) { run_ready($r, \%on_readable); run_ready($w, \%on_writable) }
  my $now = now();
  for my $id (keys %timers) {
    my $timer = $timers{$id} or next;
    next if $timer->[0] > $now;
    delete $timers{$id};
    $timer->[1]->();
  }
}

# Not by going through all sockets: while nobody answers, a fresh sender has thousands of them.
sub run_ready {
  my ($ready, $codes) = @_;
  my $bits = unpack 'b*', $ready;
  while ($bits =~ /1/g) {
    my $code = $codes->{ pos($bits) - 1 } or next;
    $code->();
  }
}

# ---- JSON, as much as is needed ------------------------------------------------------------------
sub quoted {
  my ($text) = @_;
  $text =~ s/(["\\])/\\$1/g;
  $text =~ s/[^\x20-\x7e]/?/g;
  return "\"$text\"";
}

sub report {
  my ($id, @pairs) = @_;
  my $line = "{\"id\":$id";
  while (my ($key, $json) = splice @pairs, 0, 2) { $line .= ",\"$key\":$json" }
  print "$line}\n";
}

# ---- sockets -------------------------------------------------------------------------------------
sub far_end {
  my ($address, $port) = @_;
  return (AF_INET6, pack_sockaddr_in6($port, inet_pton(AF_INET6, $address))) if $address =~ /:/;
  return (AF_INET, pack_sockaddr_in($port, inet_pton(AF_INET, $address)));
}

sub any_end {
  my ($family, $port) = @_;
  return $family == AF_INET ? pack_sockaddr_in($port, INADDR_ANY) : pack_sockaddr_in6($port, IN6ADDR_ANY);
}

# Connects and exchanges lines. Calls $on->{line}(text) for each answer and $on->{end}(why) at most once.
sub talk {
  my ($address, $port, $on) = @_;
  my ($family, $far) = far_end($address, $port);
  socket(my $socket, $family, SOCK_STREAM | SOCK_NONBLOCK, 0) or die "socket: $!";
  my $end = sub {
    my ($why) = @_;
    drop($socket);
    $on->{end}->("$why");
  };
  my $received = '';
  my $readable = sub {
    my $got = sysread($socket, $received, 65536, length $received);
    return if !defined $got && $!{EAGAIN};
    return $end->($!) if !defined $got;
    return $end->('closed by the other end') if $got == 0;
    while ($received =~ s/^([^\n]*)\n//) { $on->{line}->($1) }
  };
  my $connected = sub {
    unwatch_writable(fileno $socket);
    my $error = unpack 'i', getsockopt($socket, SOL_SOCKET, SO_ERROR);
    if ($error) { $! = $error; return $end->($!) }
    watch($socket, $readable);
    $on->{open}->();
  };
  if (connect($socket, $far) || $!{EINPROGRESS}) { watch_writable($socket, $connected) }
  else { my $why = "$!"; at(0, sub { $end->($why) }) }
  return $socket;
}

# ---- probe ---------------------------------------------------------------------------------------
sub probe {
  my ($id, $protocol, $address, $port, $ms) = @_;
  my ($socket, $done);
  my $finish = sub {
    return if $done++;
    drop($socket);
    report($id, @_);
  };
  at(now() + $ms / 1000, sub { $finish->(failed => quoted("no answer within $ms ms")) });
  if ($protocol eq 'tcp') {
    $socket = talk($address, $port, {
      open => sub { syswrite($socket, "probe\n") },
      line => sub { $finish->(answer => quoted($_[0])) },
      end  => sub { $finish->(failed => quoted($_[0])) },
    });
    return;
  }
  my ($family, $far) = far_end($address, $port);
  socket($socket, $family, SOCK_DGRAM | SOCK_NONBLOCK, 0) or die "socket: $!";
  watch($socket, sub {
    my $ok = recv($socket, my $datagram, 65536, 0);
    return $finish->(failed => quoted("$!")) if !defined $ok;
    $finish->(answer => quoted((split /\n/, $datagram)[0]));
  });
  # Connected, so that an ICMP error is an answer too.
  (connect($socket, $far) && defined send($socket, 'probe', 0)) or $finish->(failed => quoted("$!"));
}

# ---- long-running tasks --------------------------------------------------------------------------
my %tasks;      # id => { stop => code, waits => [[id, count, source]] }

sub answered {
  my ($task, $answer) = @_;
  for my $wait (@{ $task->{waits} }) {
    next if defined $wait->[2] && $answer !~ / saw \Q$wait->[2]\E$/;
    report($wait->[0], reached => 'true') if --$wait->[1] == 0;
  }
  @{ $task->{waits} } = grep { $_->[1] > 0 } @{ $task->{waits} };
}

# Ports are taken one after the other, so that none comes back within conntrack's time-outs.
my $next_port = 1024;

sub fresh_socket {
  my ($family) = @_;
  socket(my $socket, $family, SOCK_DGRAM | SOCK_NONBLOCK, 0) or die "socket: $!";
  for (1 .. 64) {
    $next_port = 1024 if ++$next_port > 65535;
    return $socket if bind($socket, any_end($family, $next_port));
  }
  die "no free port near $next_port: $!";
}

sub sender {
  my ($id, $address, $port, $microseconds, $kind) = @_;
  my ($family, $far) = far_end($address, $port);
  my $interval = $microseconds / 1e6;
  my ($sent, $answers, $stopped, @answer_of, @open) = (0, 0, 0);
  my $task = $tasks{$id} = { waits => [], sent => \$sent };
  my $finish = sub {
    return if $stopped++ > 1;
    drop($_->[1]) for @open;
    delete $tasks{$id};
    # As runs over the sequence: [first, last, answer or null].
    my @runs;
    for my $at (0 .. $sent - 1) {
      my $answer = $answer_of[$at] // '';
      if (@runs && $runs[-1][2] eq $answer) { $runs[-1][1] = $at }
      else { push @runs, [$at, $at, $answer] }
    }
    my $runs = join ',', map { "[$_->[0],$_->[1]," . ($_->[2] eq '' ? 'null' : quoted($_->[2])) . ']' } @runs;
    report($id, sent => $sent, runs => "[$runs]");
  };
  my $listen = sub {
    my ($socket) = @_;
    watch($socket, sub {
      while (defined recv($socket, my $datagram, 65536, 0)) {
        my ($answer, $at) = split /\n/, $datagram;
        next if !defined $at || $at !~ /^\d+$/ || $at >= $sent || defined $answer_of[$at];
        $answer_of[$at] = $answer;
        $answers++;
        answered($task, $answer);
        drop($socket) if $kind eq 'fresh';
        return $finish->() if $stopped && $answers == $sent;
        return if $kind eq 'fresh';
      }
    });
    return $socket;
  };
  my $one = $kind eq 'fresh' ? undef : $listen->(fresh_socket($family));
  if ($one) {
    push @open, [9e99, $one];
    # On a busy machine many answers come at once; the usual buffer holds some 270 of them.
    setsockopt($one, SOL_SOCKET, $SO_RCVBUFFORCE, 8 << 20);
  }
  my $start = now();
  my $tick;
  $tick = sub {
    return if $stopped;
    my $now = now();
    while ($start + $sent * $interval <= $now) {
      my $socket = $one // $listen->(fresh_socket($family));
      push @open, [$now + $GRACE, $socket] if !$one;
      send($socket, $sent++, 0, $far);
    }
    while (@open && $open[0][0] <= $now) { drop((shift @open)->[1]) }
    at($start + $sent * $interval, $tick);
  };
  $task->{stop} = sub {
    $stopped = 1;
    return $finish->() if $answers == $sent;
    at(now() + $GRACE, $finish);
  };
  $tick->();
}

sub connection {
  my ($id, $address, $port, $ms) = @_;
  my ($exchanged, $asked, $broken, $stopped, %seen, $socket) = (0, 0);
  my $task = $tasks{$id} = { waits => [] };
  my $finish = sub {
    return if !delete $tasks{$id};
    drop($socket);
    my $seen = join ',', map { quoted($_) } sort keys %seen;
    report($id, exchanged => $exchanged, answers => "[$seen]", why => defined $broken ? quoted($broken) : 'null');
  };
  my $ask = sub {
    return if $stopped || defined $broken;
    $asked++;
    syswrite($socket, "line $asked\n");
  };
  $socket = talk($address, $port, {
    open => $ask,
    line => sub {
      $exchanged++;
      $seen{ $_[0] } = 1;
      answered($task, $_[0]);
      return $finish->() if $stopped;
      at(now() + $ms / 1000, $ask);
    },
    end => sub {
      $broken = $_[0];
      $finish->() if $stopped;
    },
  });
  $task->{stop} = sub {
    $stopped = 1;
    return $finish->() if defined $broken || ($asked > 0 && $exchanged == $asked);
    at(now() + $GRACE, sub { $broken //= $asked ? 'the last line was not answered' : 'not connected'; $finish->() });
  };
}

# ---- commands ------------------------------------------------------------------------------------
my %commands = (
  probe => \&probe,
  sender => \&sender,
  connection => \&connection,
  until => sub {
    my ($id, $task, $count, $source) = @_;
    push @{ $tasks{$task}{waits} }, [$id, $count, $source] if $tasks{$task};
  },
  sent => sub {
    my ($id, $task) = @_;
    report($id, sent => ${ $tasks{$task}{sent} }) if $tasks{$task};
  },
  stop => sub { $tasks{ $_[0] }{stop}->() if $tasks{ $_[0] } },
);

my $typed = '';
STDIN->blocking(0);
watch(\*STDIN, sub {
  my $got = sysread(STDIN, $typed, 65536, length $typed);
  exit 0 if defined $got && $got == 0;
  while ($typed =~ s/^([^\n]*)\n//) {
    my ($command, @words) = split ' ', $1;
    my $code = $commands{$command} or die "no such command: $command";
    $code->(@words);
  }
});
turn() while 1;
