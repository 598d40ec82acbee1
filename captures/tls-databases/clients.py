"""Clients of MariaDB, PostgreSQL, and a proxy, over TLS: `clients.py SERVER`. Keys go to the file keys.log."""
import asyncio
import http.client
import ssl
import sys

import asyncpg
import pg8000.native
import pymysql

server = sys.argv[1]
VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]
PRODUCTS = [3, 17, 42, 99, 200]


def tls(version, alpn=()):
    context = ssl.create_default_context(cafile="shop.test.pem")
    context.check_hostname = False
    context.minimum_version = context.maximum_version = version
    context.keylog_filename = "keys.log"
    if alpn:
        context.set_alpn_protocols(alpn)
    return context


def mysql(version):
    connection = pymysql.connect(host=server, user="app", password="secret", database="shop", ssl=tls(version), autocommit=True)
    cursor = connection.cursor()
    for product in PRODUCTS:
        cursor.execute("SELECT name, price FROM product WHERE id = %s", (product,))
        cursor.execute("UPDATE product SET stock = stock - 1 WHERE id = %s", (product,))
    cursor.execute("SELECT SLEEP(0.05)")
    # An answer of several records, and a statement of several.
    cursor.execute("SELECT id, name, REPEAT('x', 190) FROM product WHERE id <= 90")
    cursor.fetchall()
    cursor.execute("INSERT INTO purchase (product, customer) VALUES (1, '%s')" % ("c" * 17000))
    try:
        cursor.execute("SELECT nothing FROM product")
    except pymysql.err.OperationalError:
        pass
    connection.close()


def simple_postgresql(version):
    connection = pg8000.native.Connection("app", host=server, password="secret", database="shop", ssl_context=tls(version))
    for product in PRODUCTS:
        connection.run("SELECT name, price FROM product WHERE id = :id", id=product)
        connection.run("UPDATE product SET stock = stock - 1 WHERE id = %d" % product)
    connection.run("SELECT pg_sleep(0.05)")
    try:
        connection.run("SELECT nothing FROM product")
    except pg8000.exceptions.DatabaseError:
        pass
    connection.close()


async def extended_postgresql(version):
    connection = await asyncpg.connect(user="app", host=server, password="secret", database="shop", ssl=tls(version))
    for product in PRODUCTS:
        await connection.fetch("SELECT stock FROM product WHERE id = $1", product)
    await connection.fetch("SELECT id, name, repeat('x', 190) FROM product WHERE id <= 90")
    await connection.executemany("INSERT INTO purchase(product, customer) VALUES ($1, $2)", [(p, "several") for p in PRODUCTS])
    await connection.close()


def proxied(version):
    context = tls(version, ["http/1.1"])
    connection = http.client.HTTPSConnection(server, 8888, context=context)
    connection.set_tunnel(server, 443)
    for number in range(6):
        connection.request("GET", "/product/%d?version=%d" % (number, version))
        connection.getresponse().read()
    connection.close()


for version in VERSIONS:
    mysql(version)
    simple_postgresql(version)
    asyncio.run(extended_postgresql(version))
    proxied(version)
