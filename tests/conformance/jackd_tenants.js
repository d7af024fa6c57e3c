// Tenants of a tube with groups, by jackd 2.2.2, which knows none. Arguments: the port of the server at 127.0.0.1, and
// "put <tenants> <each> <jobs>": so many jobs of a tenant "large", then so many of each other tenant, all into tubes "mail;<tenant>";
// "work <jobs>": it does so many jobs of tube "mail", and prints the body of each on a line.
'use strict'
const Client = require('jackd')

const [port, verb, ...counts] = process.argv.slice(2).map((word) => Number(word) || word)
const AT_ONCE = 500

async function putFor (client, tenant, count) {
  await client.use(`mail;${tenant}`)
  for (let first = 0; first < count; first += AT_ONCE) {
    const numbers = Array.from({ length: Math.min(AT_ONCE, count - first) }, (_, at) => first + at)
    await Promise.all(numbers.map((number) => client.put(`${tenant} ${number}`)))
  }
}

async function put (client, tenants, each, large) {
  await putFor(client, 'large', large)
  for (let tenant = 0; tenant < tenants; tenant++) await putFor(client, tenant, each)
}

async function work (client, count) {
  await client.watch('mail')
  for (let done = 0; done < count; done++) {
    const job = await client.reserve()
    console.log(Buffer.from(job.payload).toString())
    await client.delete(job.id)
  }
}

async function main () {
  const client = new Client()
  await client.connect({ host: '127.0.0.1', port })
  await (verb === 'put' ? put : work)(client, ...counts)
  client.socket.destroy()
}

main()
