// The usual flows of jackd 2.2.2, a client from npm, against the server at 127.0.0.1:<first argument>. Each flow is a test; the
// process prints "ok <name>" or "not ok <name>: <why>" for each, and exits with 0 if all are ok.
// Left out is what fails with beanstalkd too: jackd forgets the CRLF of pause-tube, and takes a CRLF in a body
// for its end, makes JSON of a Buffer, and loses its place when reserves are pipelined.
'use strict'
const assert = require('assert')
const Client = require('jackd')

const port = Number(process.argv[2])
const text = (job) => Buffer.from(job.payload).toString()

const flows = {
  async life (client) {
    const id = await client.put('body', { ttr: 100 })
    const job = await client.reserve()
    assert.strictEqual(String(job.id), String(id))
    assert.strictEqual(text(job), 'body')
    await client.touch(id)
    await client.release(id, { priority: 7, delay: 0 })
    assert.strictEqual(text(await client.peekReady()), 'body')
    await client.bury((await client.reserveWithTimeout(0)).id, 8)
    assert.strictEqual(text(await client.peekBuried()), 'body')
    assert.strictEqual(Number(await client.kick(10)), 1)
    await client.reserveJob(id)
    await client.bury(id, 1)
    await client.kickJob(id)
    assert.match(String(await client.statsJob(id)), /\nkicks: 2\n/)
    await client.delete(id)
    await assert.rejects(client.peek(id), /NOT_FOUND/)
  },

  async bodies (client) {
    for (const body of ['x', 'many words\nin lines\0', 'x'.repeat(65535)]) {
      const id = await client.put(body)
      const job = await client.reserve()
      assert.strictEqual(text(job), body)
      await client.delete(id)
    }
    await assert.rejects(client.put('x'.repeat(65536)), /JOB_TOO_BIG/)
    const id = await client.put({ an: 'object' })
    assert.deepStrictEqual(JSON.parse(text(await client.reserve())), { an: 'object' })
    await client.delete(id)
  },

  async order (client) {
    const low = await client.put('low', { priority: 9 })
    const high = await client.put('high', { priority: 1 })
    const later = await client.put('later', { delay: 100 })
    assert.strictEqual(text(await client.peekDelayed()), 'later')
    assert.strictEqual(text(await client.reserve()), 'high')
    assert.strictEqual(text(await client.reserve()), 'low')
    await assert.rejects(client.reserveWithTimeout(0), /TIMED_OUT/)
    for (const id of [low, high, later]) await client.delete(id)
  },

  async errors (client) {
    for (const ask of ['delete', 'release', 'touch', 'kickJob', 'statsJob', 'peek', 'reserveJob']) {
      await assert.rejects(client[ask]('18446744073709551615'), /NOT_FOUND/, ask)
    }
    for (const ask of ['peekReady', 'peekDelayed', 'peekBuried']) await assert.rejects(client[ask](), /NOT_FOUND/)
    await client.put('brief', { ttr: 1 })
    const { id } = await client.reserve()
    await assert.rejects(client.reserve(), /DEADLINE_SOON/)
    await client.delete(id)
  },

  async tubes (client, name) {
    assert.strictEqual(await client.listTubeUsed(), name)
    assert.ok(String(await client.listTubes()).includes(`\n- ${name}\n`))
    assert.strictEqual(Number(await client.watch('another')), 2)
    assert.strictEqual(Number(await client.ignore('another')), 1)
    await assert.rejects(client.ignore(name), /NOT_IGNORED/)
    assert.match(String(await client.statsTube(name)), /\ncurrent-watching: 1\n/)
    assert.match(String(await client.stats()), /\nversion: "1\.13"\n/)
  },

  // The client sends each command when it is called and matches replies in order: it pipelines.
  async pipelined (client) {
    const count = 100
    const bodies = Array.from({ length: count }, (_, number) => `body ${number}`)
    const ids = await Promise.all(bodies.map((body) => client.put(body)))
    assert.strictEqual(new Set(ids.map(String)).size, count)
    const jobs = []
    while (jobs.length < count) jobs.push(await client.reserve())
    jobs.forEach((job, number) => {
      assert.strictEqual(String(job.id), String(ids[number]))
      assert.strictEqual(text(job), bodies[number])
    })
    await Promise.all(ids.map((id) => client.delete(id)))
  },

  async worker (client, name) {
    const producer = new Client()
    await producer.connect({ host: '127.0.0.1', port })
    await producer.use(name)
    const waiting = client.reserve()
    const id = await producer.put('for whoever waits')
    const job = await waiting
    assert.strictEqual(String(job.id), String(id))
    const closed = new Promise((resolve) => client.socket.once('close', resolve))
    await client.disconnect() // sends a quit; the server closes when it has seen that
    await closed
    assert.strictEqual(text(await producer.peekReady()), 'for whoever waits')
    await producer.delete(id)
    await producer.disconnect()
  }
}

async function main () {
  let failed = false
  for (const [name, flow] of Object.entries(flows)) {
    const client = new Client()
    try {
      await client.connect({ host: '127.0.0.1', port })
      await client.use(name)
      await client.watch(name)
      await client.ignore('default')
      await flow(client, name)
      console.log(`ok ${name}`)
    } catch (error) {
      failed = true
      console.log(`not ok ${name}: ${error.stack}`)
    }
    client.socket.destroy()
  }
  process.exit(failed ? 1 : 0)
}

main()
