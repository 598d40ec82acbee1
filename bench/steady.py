"""A steady load for bench/compare.py: bench/steady.py SECONDS, captured with tcpdump -i lo tcp port 8099. HTTP over loopback: sessions arrive as a
Poisson process, and each asks for a geometric number of pages in quick succession."""
import asyncio, random, sys
PORT, SECONDS = 8099, float(sys.argv[1])
PAGES = [("/", .002, .4), ("/search", .015, .8), ("/product/1", .005, .6), ("/checkout", .04, .5)]
rng = random.Random(13)
async def serve(reader, writer):
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            path = head.split()[1].decode()
            _, mean, sigma = next(p for p in PAGES if p[0] == path)
            await asyncio.sleep(mean * rng.lognormvariate(0, sigma))
            status = b"500 Oops" if rng.random() < .03 else b"200 OK"
            body = b"x" * rng.randrange(100, 3000)
            writer.write(b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n" % (status, len(body)) + body)
            await writer.drain()
    except asyncio.IncompleteReadError:
        writer.close()
async def session():
    reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
    while True:
        path = rng.choices(PAGES, [8, 4, 6, 1])[0][0]
        writer.write(f"GET {path} HTTP/1.1\r\nHost: shop\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0]))
        if rng.random() < .1:
            break
        await asyncio.sleep(rng.expovariate(1 / .02))
    writer.close()
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", PORT)
    loop = asyncio.get_running_loop()
    end = loop.time() + SECONDS
    tasks = set()
    while loop.time() < end:
        await asyncio.sleep(rng.expovariate(12))
        t = asyncio.ensure_future(session()); tasks.add(t); t.add_done_callback(tasks.discard)
asyncio.run(main())
