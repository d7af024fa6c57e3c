<?php
// The usual flows of pheanstalk 4.0.4, a client for PHP, against the server at <first argument>, an address as PHP has it; or, with
// "refused" and "nobody" behind it, what it makes of the answers to who may only put into "orders", and to who may do nothing.
// Each flow prints "ok <name>"; exits with 255 at the first that fails, with 3 if pheanstalk is not installed.
declare(strict_types=1);

use Pheanstalk\Exception;
use Pheanstalk\JobId;
use Pheanstalk\Pheanstalk;
use Pheanstalk\SocketFactory;

if (!@include 'Pheanstalk/autoload.php') {
    exit(3);
}

function is(mixed $found, mixed $wanted): void
{
    if ($found !== $wanted) {
        throw new AssertionError(var_export($found, true) . ' instead of ' . var_export($wanted, true));
    }
}

function fails(string $kind, callable $call): void
{
    try {
        $call();
    } catch (Exception $error) {
        is(get_class($error), $kind);
        return;
    }
    throw new AssertionError("no $kind");
}

$usual = [
    'life' => function (Pheanstalk $client): void {
        $id = $client->put('body', 5, 0, 100)->getId();
        $job = $client->reserve();
        is([$job->getId(), $job->getData(), $client->statsJob($job)['state']], [$id, 'body', 'reserved']);
        $client->touch($job);
        $client->release($job, 7, 100);
        is($client->peekDelayed()->getId(), $id);
        is($client->kick(3), 1);
        is($client->peekReady()->getData(), 'body');
        $client->bury($client->reserveWithTimeout(0), 8);
        is($client->peekBuried()->getId(), $id);
        $client->kickJob($job);
        is($client->statsJob($job)['kicks'], '2');
        $client->delete($client->reserve());
        foreach (['peek', 'delete', 'touch', 'kickJob', 'release', 'bury'] as $ask) {
            fails(Exception\JobNotFoundException::class, fn() => $client->$ask($job));
        }
        fails(Exception\ServerException::class, fn() => $client->statsJob($job));
        is([$client->peekReady(), $client->peekDelayed(), $client->peekBuried()], [null, null, null]);
        is($client->reserveWithTimeout(0), null);
    },

    'bodies' => function (Pheanstalk $client): void {
        foreach (['', "\r\n", implode(array_map('chr', range(0, 255))), str_repeat('x', 65535)] as $body) {
            $client->put($body);
            $job = $client->reserve();
            is($job->getData(), $body);
            $client->delete($job);
        }
        fails(Exception\JobTooBigException::class, fn() => $client->put(str_repeat('x', 65536)));
    },

    'tubes' => function (Pheanstalk $client): void {
        $client->pauseTube('tubes', 100);
        is($client->statsTube('tubes')['pause'], '100');
        $client->resumeTube('tubes');
        $client->watch('another');
        is($client->listTubesWatched(true), ['tubes', 'another']);
        is(in_array('another', $client->listTubes(), true), true);
        is($client->listTubeUsed(true), 'tubes');
        is($client->stats()['current-jobs-ready'], '0');
        is($client->withUsedTube('other', fn($client) => $client->listTubeUsed(true)), 'other');
        $client->watchOnly('tubes');
        fails(Exception\ServerException::class, fn() => $client->ignore('tubes'));
        fails(Exception\ServerBadFormatException::class, fn() => $client->useTube('-no-name'));
        $job = $client->put('brief', 0, 0, 1);
        $client->reserve();
        fails(Exception\DeadlineSoonException::class, fn() => $client->reserveWithTimeout(9));
        $client->delete($job);
    },
];

$refused = function (Pheanstalk $client): void {
    $unknown = Exception\ServerUnknownCommandException::class;
    fails($unknown, fn() => $client->useTube('secret')->put('theirs'));
    $job = $client->useTube('orders')->put('mine');
    fails($unknown, fn() => $client->watchOnly('secret')->reserve());
    fails($unknown, fn() => $client->watchOnly('orders')->reserveWithTimeout(0));
    fails($unknown, fn() => $client->kick(1));
    foreach (['peek', 'delete', 'kickJob'] as $ask) {
        fails(Exception\JobNotFoundException::class, fn() => $client->$ask($job));
    }
    foreach ([fn() => $client->pauseTube('orders', 9), fn() => $client->statsTube('secret')] as $call) {
        fails(Exception\ServerException::class, $call);
    }
    is([$client->peekReady(), $client->statsTube('orders')['current-jobs-ready']], [null, '1']);
};

// Each call has its connection closed behind the answer.
$nobody = function (Pheanstalk $client): void {
    $unknown = Exception\ServerUnknownCommandException::class;
    fails($unknown, fn() => $client->put('lost'));
    fails($unknown, fn() => $client->useTube('orders'));
    fails($unknown, fn() => $client->reserve());
    fails($unknown, fn() => $client->delete(new JobId(1)));
};

$address = $argv[1];
$flows = isset($argv[2]) ? [$argv[2] => ${$argv[2]}] : $usual;
foreach ($flows as $name => $flow) {
    $is_path = str_starts_with($address, 'unix:');
    $factory = $is_path ? new SocketFactory($address, 0, 10, SocketFactory::FSOCKOPEN) : new SocketFactory('127.0.0.1', (int)$address);
    $client = Pheanstalk::createWithFactory($factory);
    if (isset($usual[$name])) {
        $client->useTube($name)->watchOnly($name);
    }
    $flow($client);
    echo "ok $name\n";
}
