"""The shop's customers and its application, for record.sh: three web clients, one database and cache user."""
import http.client
import random
import socket
import sys
import threading

import pymysql

SERVER = sys.argv[1]


def customer(source, seed, visits):
    """Browses over keep-alive connections; the customer at .23 likes /checkout."""
    rng = random.Random(seed)
    for _ in range(visits):
        web = http.client.HTTPConnection(SERVER, 80, source_address=(source, 0), timeout=10)
        for _ in range(rng.randint(3, 9)):
            kind = rng.random()
            method, body = "GET", None
            if kind < 0.30:
                url = "/"
            elif kind < 0.62:
                url = f"/product/{rng.randint(1, 12)}"
            elif kind < 0.76:
                url = f"/search?q=item{rng.randint(1, 5)}"
            elif kind < 0.86:
                method, url, body = "POST", "/cart", f'{{"product": {rng.randint(1, 12)}}}'
            elif kind < (0.96 if source.endswith("3") else 0.90):
                url = "/checkout"
            elif kind < 0.98:
                url = f"/old/{rng.randint(1, 3)}"
            else:
                url = "/broken"
            web.request(method, url, body=body, headers={"Host": "shop.example", "User-Agent": "shop-client/1"})
            web.getresponse().read()
        web.close()


def application(source, seed, rounds):
    """Asks the cache first, then the database."""
    rng = random.Random(seed)
    cache = socket.create_connection((SERVER, 11211), source_address=(source, 0))
    answers = cache.makefile("rb")
    database = pymysql.connect(host=SERVER, user="app", password="secret", database="shop", bind_address=source, ssl_disabled=True)
    rows = database.cursor()
    for n in range(rounds):
        product = rng.randint(1, 12)
        cache.sendall(f"get product:{product}\r\n".encode())
        hit = answers.readline().startswith(b"VALUE")
        if hit:
            answers.readline()
            answers.readline()
        else:
            rows.execute("SELECT id, name, price FROM product WHERE id = %s", (product,))
            value = repr(rows.fetchall()).encode()
            cache.sendall(b"set product:%d 0 0 %d\r\n%s\r\n" % (product, len(value), value))
            answers.readline()
        if n % 5 == 0:
            rows.execute("INSERT INTO purchase(product, customer) VALUES (%s, %s)", (product, f"customer {n}"))
            database.commit()
        if n % 9 == 0:
            cache.sendall(b"delete product:%d\r\n" % rng.randint(1, 12))
            answers.readline()
        if n % 13 == 0:
            rows.execute("SELECT SLEEP(0.09), COUNT(*) FROM purchase WHERE customer LIKE %s", ("%customer%",))
            rows.fetchall()
        if n % 29 == 0:
            try:
                rows.execute("SELECT discount FROM product WHERE id = 1")
            except pymysql.MySQLError:
                pass
    database.close()
    cache.close()


threads = [threading.Thread(target=customer, args=(f"10.20.0.{host}", host, 12)) for host in (21, 22, 23)]
threads += [threading.Thread(target=application, args=(f"10.20.0.{host}", host, 90)) for host in (21, 22)]
for t in threads:
    t.start()
for t in threads:
    t.join()
