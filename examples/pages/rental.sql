-- A shop that rents films, after MySQL's sample database Sakila: its tables as far as pages need them, its sizes, and made-up names. Always the same rows.
CREATE DATABASE rental;
CREATE USER rental@'%';
GRANT SELECT ON rental.* TO rental@'%';
USE rental;
CREATE TABLE film (film_id INT PRIMARY KEY, title VARCHAR(64), days INT, price DECIMAL(5, 2));
INSERT INTO film SELECT seq, CONCAT(ELT(1 + seq % 7, 'Academy', 'Blue', 'Comet', 'Dragon', 'Empty', 'Ferry', 'Golden'), ' ', ELT(1 + seq DIV 7 % 5, 'Dinosaur', 'Garden', 'Letter', 'Night', 'Road'), ' ', seq),
  3 + seq % 5, 0.99 + seq % 3 * 2 FROM seq_1_to_1000;
CREATE TABLE actor (actor_id INT PRIMARY KEY, name VARCHAR(45));
INSERT INTO actor SELECT seq, CONCAT('Actor ', seq) FROM seq_1_to_200;
CREATE TABLE film_actor (actor_id INT, film_id INT, PRIMARY KEY (actor_id, film_id), KEY (film_id));
INSERT INTO film_actor SELECT 1 + seq % 200, 1 + (seq * 7 + seq DIV 200) % 1000 FROM seq_1_to_5462;
CREATE TABLE customer (customer_id INT PRIMARY KEY, store INT, name VARCHAR(45), phone VARCHAR(20));
INSERT INTO customer SELECT seq, 1 + seq % 2, CONCAT('Customer ', seq), CONCAT('555-', 1000 + seq) FROM seq_1_to_599;
CREATE TABLE inventory (inventory_id INT PRIMARY KEY, film_id INT, KEY (film_id));
INSERT INTO inventory SELECT seq, 1 + seq * 31 % 1000 FROM seq_1_to_4581;
CREATE TABLE rental (rental_id INT PRIMARY KEY, rented DATE, inventory_id INT, customer_id INT, returned DATE, KEY (inventory_id), KEY (customer_id));
INSERT INTO rental SELECT seq, '2026-01-01' + INTERVAL seq DIV 100 DAY, 1 + seq * 6007 % 4581, 1 + seq * 41 % 599, IF(seq % 20 = 0, NULL, '2026-01-08' + INTERVAL seq DIV 100 DAY) FROM seq_1_to_16044;
