# The usual flows of beaneater 1.1.1, a client for Ruby, against the server at 127.0.0.1:<first argument>; or, with "refused" and
# "nobody" behind it, what it makes of the answers to who may only put into "orders", and to who may do nothing.
# Each flow prints "ok <name>"; exits with 1 at the first that fails, with 3 if beaneater is not installed.
begin
  require 'beaneater'
rescue LoadError
  exit 3
end

PORT, ONLY = ARGV

def is(found, wanted)
  raise "#{found.inspect} instead of #{wanted.inspect}" unless found == wanted
end

def fails(kind)
  yield
rescue kind
  nil
else
  raise "no #{kind}"
end

USUAL = {
  life: lambda do |client, tube|
    id = tube.put('body', pri: 5, ttr: 100)[:id]
    job = tube.reserve
    is([job.id, job.body, job.stats.state], [id, 'body', 'reserved'])
    job.touch
    job.release(pri: 7, delay: 100)
    is(tube.peek(:delayed).stats.delay, 100)
    is(tube.kick(3)[:id], '1')
    is(tube.peek(:ready).pri, 7)
    client.tubes.reserve(0).bury(pri: 8)
    is(tube.peek(:buried).body, 'body')
    client.jobs.find(id).kick
    job = client.tubes.reserve(0)
    is(job.stats.kicks, 2)
    job.delete
    is(job.exists?, false)
    is(client.jobs.find(id), nil)
  end,

  bodies: lambda do |_client, tube|
    ['', "\r\n", (0..255).to_a.pack('C*'), 'x' * 65_535].each do |body|
      tube.put(body)
      job = tube.reserve(0)
      is(job.body.b, body.b)
      job.delete
    end
    fails(Beaneater::JobTooBigError) { tube.put('x' * 65_536) }
  end,

  tubes: lambda do |client, tube|
    tube.put('waits', delay: 100)
    tube.pause(100)
    is([tube.stats.pause, tube.stats.current_jobs_delayed], [100, 1])
    tube.pause(0)
    client.tubes.watch('another', tube.name)
    is(client.tubes.watched.map(&:name), %w[default another tubes])
    is(client.tubes.all.map(&:name).include?('tubes'), true)
    is(client.tubes.used.name, 'tubes')
    is(client.stats.current_jobs_delayed, 1)
    tube.clear # now it watches this tube alone
    is(tube.peek(:delayed), nil)
    fails(Beaneater::NotIgnoredError) { client.tubes.ignore('tubes') }
    fails(Beaneater::InvalidTubeName) { client.tubes.watch('-no-name') }
    fails(Beaneater::TimedOutError) { client.tubes.reserve(0) }
  end,

  handlers: lambda do |client, tube|
    %w[good bad].each { |body| tube.put(body) }
    seen = []
    client.jobs.register(tube.name, retry_on: [IOError], max_retries: 1) do |job|
      seen << job.body
      raise IOError if seen == %w[good]
      raise Beaneater::AbortProcessingError if seen.size == 4
      raise 'a bug' if job.body == 'bad'
    end
    tube.put('last', pri: 2**32 - 1)
    client.jobs.process!(release_delay: 0)
    is(seen, %w[good good bad last])
    is(tube.kick(9)[:id], '2') # the job of an aborted handler is put aside, too
    is(tube.stats.cmd_delete, 1)
    tube.clear
  end
}.freeze

def refused(client)
  orders = client.tubes['orders']
  is(orders.put('mine')[:status], 'INSERTED')
  fails(Beaneater::UnknownCommandError) { client.tubes['secret'].put('theirs') }
  fails(Beaneater::UnknownCommandError) { orders.reserve(0) }
  fails(Beaneater::UnknownCommandError) { orders.kick }
  fails(Beaneater::NotFoundError) { orders.pause(9) }
  fails(Beaneater::NotFoundError) { client.tubes['secret'].stats }
  is([orders.peek(:ready), client.jobs.find(1)], [nil, nil])
  is([orders.stats.current_jobs_ready, client.tubes.used.name], [1, 'orders'])
end

# Each call has its connection closed behind the answer.
def nobody(client)
  2.times { fails(Beaneater::UnknownCommandError) { client.tubes['default'].put('lost') } }
  fails(Beaneater::UnknownCommandError) { client.tubes['orders'].put('lost') }
  fails(Beaneater::UnknownCommandError) { client.tubes['orders'].reserve }
end

def main(flows)
  flows.each do |name, flow|
    client = Beaneater.new("127.0.0.1:#{PORT}")
    flow.call(client, client.tubes[name.to_s])
    client.close
    puts "ok #{name}"
  end
end

main(ONLY ? { ONLY => ->(client, _) { send(ONLY, client) } } : USUAL)
