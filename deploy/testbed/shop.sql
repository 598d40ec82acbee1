-- The shop's database.
CREATE DATABASE shop;
USE shop;
CREATE TABLE product (id INT PRIMARY KEY, name VARCHAR(40), price DECIMAL(8, 2));
INSERT INTO product SELECT seq, CONCAT('product ', seq), 1 + seq * 37 % 500 FROM seq_1_to_1000;
CREATE TABLE review (product INT, stars INT, text VARCHAR(80), INDEX (product));
INSERT INTO review SELECT 1 + seq % 1000, 1 + seq * 7919 % 5, CONCAT('review ', seq, ': ', REPEAT('so it was. ', 1 + seq % 6)) FROM seq_1_to_10000;
CREATE USER shop@'%';
GRANT SELECT ON shop.* TO shop@'%';
