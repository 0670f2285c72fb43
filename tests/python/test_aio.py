# SPDX-License-Identifier: Apache-2.0
"""wsd.aio against a real wsd."""
import asyncio
import os
import time

import pytest

import wsd
import wsd.aio
from conftest import LIMIT, same
from wsd import _wire

MIB = 1 << 20


def test_results_and_outcomes(run):
    async def body(c):
        job = await c.submit('echo', 'a')
        assert await job == b'a\n' and await job == b'a\n' and await job.result() == b'a\n' and job.done()
        assert len(job.id) == 32 and (await job.wait()).state is wsd.State.SUCCEEDED
        assert await c.call('echo', input=b'in') == b'in'
        for name, args, kind in (('echo:status', [7], wsd.Failed), ('crash:segv', [], wsd.Crashed), ('nowhere', [], wsd.NotFound)):
            with pytest.raises(kind):
                await (await c.submit(name, *args))
            with pytest.raises(kind):
                await c.call(name, *args)
        with pytest.raises(wsd.TimedOut):
            await c.call('ends:heed', timeout=0.05)
        with pytest.raises(wsd.NotFound):
            await c.submit('nowhere', detach=True)
        with pytest.raises(ValueError):
            await c.submit('echo', priority=1000)
        job = await c.submit('ends:heed')
        assert len(await job.accepted()) == 32
        with pytest.raises(TimeoutError):
            await job.result(0.05)
        job.cancel()
        with pytest.raises(wsd.Cancelled):
            await job
        assert isinstance(await job.exception(), wsd.Cancelled)
    run(body)


def test_output_goes_to_a_descriptor(run, tmp_path):
    async def body(c):
        data = b'0123456789' * 20000
        (tmp_path / 'in').write_bytes(data)

        async def pieces():
            yield data[:7]
            yield data[7:]
        before = len(os.listdir('/proc/self/fd'))
        for given in (data, tmp_path / 'in', pieces()):
            with open(tmp_path / 'out', 'wb') as file:
                job = await c.submit('echo', input=given, output=file)
            assert await job == b'' and (await job.wait()).placed == len(data)
            assert same((tmp_path / 'out').read_bytes(), data)
        with open(tmp_path / 'out', 'wb') as file, pytest.raises(BufferError):
            await c.submit('echo', input=memoryview(bytes(10))[::2], output=file)
        assert len(os.listdir('/proc/self/fd')) == before
    run(body)


def test_a_thousand_in_flight(run):
    async def body(c):
        asyncio.get_running_loop().set_debug(False)  # which notes where each of them was made

        async def worker(n):
            for i in range(5):
                assert await c.call('echo', f'{n}-{i}') == b'%d-%d\n' % (n, i)
                assert await (await c.submit('echo', i)) == b'%d\n' % i
        await asyncio.gather(*(worker(n) for n in range(1000)))
    run(body)


def test_large_input_and_output(run):
    async def body(c):
        data = os.urandom(MIB) * 16
        assert same(await (await c.submit('echo:stream', input=data)), data)
        job = await c.submit('echo:stream', input=memoryview(data)[:8 * MIB])
        got = bytearray()
        async for piece in job.output():
            got += piece
        assert same(got, data[:8 * MIB])

        async def pieces():
            for at in range(0, 4 * MIB, 99999):
                yield data[at:min(at + 99999, 4 * MIB)]
                await asyncio.sleep(0)
        assert same(await (await c.submit('echo:stream', input=pieces())), data[:4 * MIB])
        first = await c.submit('echo:stream', input=[data[:MIB]] * 4)
        assert same(await (await c.submit('echo:stream', input=first.output())), data[:MIB] * 4)

        async def breaks():
            yield b'x'
            raise KeyError('mine')
        with pytest.raises(KeyError):
            await c.submit('echo', input=breaks())
        assert same(await c.call('echo', input=bytes(2 * MIB)), bytes(2 * MIB))
    run(body)


def test_cancelled_awaits(run):
    async def body(c):
        task = asyncio.create_task(c.call('ends:heed'))
        while not await c.list(states=[wsd.State.RUNNING], plugin='ends'):
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while await c.list(states=[wsd.State.RUNNING], plugin='ends'):
            await asyncio.sleep(0.005)
        job = await c.submit('ends:heed')
        waits = [asyncio.create_task(job.wait()) for _ in range(3)]
        await asyncio.sleep(0.02)
        waits[0].cancel()
        job.cancel()
        assert (await waits[1]).state is (await waits[2]).state is wsd.State.CANCELLED
    run(body)


def test_progress_messages_attach(run):
    async def body(c):
        job = await c.submit('spin', progress=True, detach=True)
        while await job.changed() and not job.progress.done:
            pass
        follower = await c.attach(job.id)
        assert await job.state() is wsd.State.RUNNING
        job.cancel()
        with pytest.raises(wsd.Cancelled):
            await follower
        assert (await c.status(job.id)).state is wsd.State.CANCELLED
        with pytest.raises(wsd.NotFound):
            await c.cancel(job.id)
        assert any(f.cancelled for f in await c.functions())
        assert (await c.stats())['jobs_submitted'] and await c.plugins('echo') and await c.ping(b'x') > 0
        assert 'connected' in c._repr_html_() and 'cancelled' in job._repr_html_()
    run(body)


def test_wsd_is_killed(start):
    daemon = start()

    async def main():
        async with await wsd.aio.connect(daemon.socket) as c:
            jobs = [await c.submit('ends:heed') for _ in range(3)]
            await jobs[0].accepted()
            waits = [asyncio.create_task(job.result()) for job in jobs]
            await asyncio.sleep(0.01)
            daemon.kill()
            for wait in waits:
                with pytest.raises(wsd.ConnectionLost):
                    await wait
            with pytest.raises(wsd.ConnectionLost):
                await c.submit('echo')
        with pytest.raises(wsd.NoDaemon):
            await wsd.aio.connect(daemon.socket)
    asyncio.run(main())


def test_close(shared):
    async def main():
        c = await wsd.aio.connect(shared.socket)
        wait = asyncio.create_task(c.call('ends:heed'))
        await asyncio.sleep(0.02)
        await c.close()
        await c.close()
        with pytest.raises(wsd.ClosedError):
            await wait
        with pytest.raises(wsd.ClosedError):
            await c.ping()
    asyncio.run(main())


def test_a_fork_is_noticed(shared):
    async def main():
        async with await wsd.aio.connect(shared.socket) as c:
            pid = os.fork()
            if not pid:
                try:
                    c._usable()
                except wsd.ForkedError:
                    os._exit(0)
                finally:
                    os._exit(1)
            assert os.waitpid(pid, 0)[1] == 0
            assert await c.call('echo', 'x') == b'x\n'
    asyncio.run(main())


def test_a_server_that_breaks_the_rules(tmp_path):
    async def main():
        async def evil(reader, writer):
            await reader.read(100)
            writer.write(_wire.frame(_wire.WELCOME, 0, _wire.encode('Welcome', {'version': 1, 'window': 9})) + b'\xff' * 50)
            await reader.read(100)
            writer.close()
        server = await asyncio.start_unix_server(evil, tmp_path / 's')
        with pytest.raises(wsd.ProtocolError):
            async with await wsd.aio.connect(tmp_path / 's') as c:
                await c.call('echo')

        async def silent(reader, writer):
            await reader.read()
            writer.close()
        quiet = await asyncio.start_unix_server(silent, tmp_path / 'q')
        begun = time.monotonic()
        with pytest.raises(wsd.NoDaemon):
            await wsd.aio.connect(tmp_path / 'q', timeout=0.05)
        assert time.monotonic() - begun < LIMIT
        for one in (server, quiet):
            one.close()
            await one.wait_closed()
        await asyncio.sleep(0.05)
    asyncio.run(main())
