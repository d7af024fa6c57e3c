// A worker with jackd, a client from npm, whose handler always fails: rules of its tube, of which it knows nothing, retry the
// job and put it aside. The arguments are the port, how many attempts there are, the first backoff and its factor. The tube of
// each way to fail is "jackd-<its name>", and the dead go to the tube "dead". The process prints "ok <name>" or "not ok <name>: <why>" for
// each, and exits with 0 if all are ok.
'use strict'
const assert = require('assert')
const { performance } = require('perf_hooks')
const Client = require('jackd')

const port = Number(process.argv[2])
const attempts = Number(process.argv[3])
const backoff = 0.8 * Number(process.argv[4])
const factor = Number(process.argv[5])

const connect = async (tube) => {
  const client = new Client()
  await client.connect({ host: '127.0.0.1', port })
  await client.use(tube)
  await client.watch(tube)
  await client.ignore('default')
  return client
}

// Each fails with a job and returns the client that goes on, and how long the job was held or is asked to wait.
const endings = {
  release: async (client, tube, id) => {
    await client.release(id)
    return [client, 0]
  },
  delay: async (client, tube, id) => {
    await client.release(id, { delay: 1 })
    return [client, 1]
  },
  lose: async (client, tube) => {
    client.socket.destroy()
    return [await connect(tube), 0]
  },
  late: async (client, tube) => [await connect(tube), 1]
}

async function fail (name) {
  const tube = `jackd-${name}`
  const dead = await connect('dead')
  let client = await connect(tube)
  const producer = await connect(tube)
  const id = String(await producer.put(name, { ttr: name === 'late' ? 1 : 60 }))
  let earliest = 0
  for (let attempt = 1; attempt <= attempts; attempt++) {
    const asked = Math.max(performance.now(), earliest)
    const job = await client.reserveWithTimeout(30)
    assert.strictEqual(String(job.id), id)
    assert.ok(performance.now() >= earliest, `attempt ${attempt} came too early`)
    const [next, seconds] = await endings[name](client, tube, id)
    client = next
    const wait = name === 'delay' ? 0 : backoff * factor ** (attempt - 1)
    earliest = asked + (seconds + wait) * 1000 - 1
  }
  const job = await dead.reserveWithTimeout(30)
  assert.strictEqual(String(job.id), id)
  assert.strictEqual(Buffer.from(job.payload).toString(), name)
  await assert.rejects(client.reserveWithTimeout(0), /TIMED_OUT/)
  await dead.delete(id)
}

async function main () {
  let failed = false
  for (const name of Object.keys(endings)) {
    try {
      await fail(name)
      console.log(`ok ${name}`)
    } catch (error) {
      failed = true
      console.log(`not ok ${name}: ${error.stack}`)
    }
  }
  process.exit(failed ? 1 : 0)
}

main()
