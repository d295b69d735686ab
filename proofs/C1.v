(* C1: no online policy beats H_K in the worst case.

   The block adversary: items drawn from K + 1, each requested tau times in a row. Everything is about `run`
   of Paging.v: misses and insertions of schedules that obey the rules. *)

Require Import List Arith Bool Lia Factorial.
Require Import Paging.
Import ListNotations.

Definition ceil_div (a b : nat) : nat := (a + b - 1) / b.
Definition tau_stu (D L : nat) : nat := ceil_div L D + 1.
Definition tau_uts (D L : nat) : nat := ceil_div L D.

Lemma ceil_div_spec : forall L D, 0 < D -> L <= ceil_div L D * D.
Proof.
  intros L D HD. unfold ceil_div.
  pose proof (Nat.div_mod (L + D - 1) D ltac:(lia)) as E.
  pose proof (Nat.mod_upper_bound (L + D - 1) D ltac:(lia)) as B. nia.
Qed.

(* ---- 1. What a block costs ---- *)

(* Without an insertion, an item that is not held is missed each time it is asked for. *)
Lemma unloaded_misses : forall V K q l c c1 m,
  run V K c l = Some (c1, m, 0) -> held q c = false -> (forall p, In p (map fst l) -> p = q) -> m = length l.
Proof.
  induction l as [| [p a] r IH]; simpl; intros c c1 m H E A.
  - now injection H as _ <-.
  - destruct (update V K c p a) as [c2 |] eqn:U; [| discriminate ].
    destruct (run V K c2 r) as [[[c3 m3] z3] |] eqn:R; [| discriminate ].
    injection H as <- <- Z. destruct (enters a) as [| x e] eqn:N; [| simpl in Z; lia ].
    simpl in Z. subst z3. assert (p = q) as -> by (apply A; now left).
    assert (E2 : held q c2 = false).
    { unfold update in U. destruct (leave_all c (leaves a)) eqn:LV; [| discriminate ].
      rewrite N in U. simpl in U. injection U as <-.
      apply held_nIn. apply held_nIn in E. intros C. apply E. eapply leave_all_subset; eauto. }
    assert (miss q (if serves_first V then c else c2) = 1) as ->
      by (unfold miss; destruct (serves_first V); [ now rewrite E | now rewrite E2 ]).
    simpl. f_equal. eapply IH; eauto.
Qed.

(* serve_then_update: the first request of the block misses; then, whatever the policy does, in stream or pool. *)
Theorem block_cost : forall V K D L q l c c1 m z,
  serves_first V = true -> 0 < D ->
  map fst l = repeat q (tau_stu D L) -> held q c = false -> run V K c l = Some (c1, m, z) ->
  D + L <= charged D L m z.
Proof.
  intros V K D L q l c c1 m z HV HD Hl E H. unfold charged.
  destruct z as [| z].
  - apply (unloaded_misses V K q) in H; [| assumption | intros p Hp; rewrite Hl in Hp; now apply repeat_spec in Hp ].
    assert (length l = tau_stu D L) as Hlen by (rewrite <- (map_length fst l), Hl; apply repeat_length).
    pose proof (ceil_div_spec L D HD). unfold tau_stu in Hlen. nia.
  - assert (1 <= m); [| nia ].
    destruct l as [| [p a] r]; simpl in H.
    + injection H as _ _ C. discriminate.
    + unfold tau_stu in Hl. rewrite Nat.add_comm in Hl. simpl in Hl. injection Hl as -> _.
      destruct (update V K c q a) as [c2 |]; [| discriminate ].
      destruct (run V K c2 r) as [[[c3 m3] z3] |]; [| discriminate ].
      injection H as <- <- _. rewrite HV. unfold miss. rewrite E. lia.
Qed.

(* update_then_serve: tau = ceil(lambda) suffices for lambda; nothing is missed on loading at once. *)
Theorem block_cost_uts : forall V K D L q l c c1 m z,
  0 < D -> map fst l = repeat q (tau_uts D L) -> held q c = false -> run V K c l = Some (c1, m, z) ->
  L <= charged D L m z.
Proof.
  intros V K D L q l c c1 m z HD Hl E H. unfold charged. destruct z as [| z]; [| nia ].
  apply (unloaded_misses V K q) in H; [| assumption | intros p Hp; rewrite Hl in Hp; now apply repeat_spec in Hp ].
  assert (length l = tau_uts D L) as Hlen by (rewrite <- (map_length fst l), Hl; apply repeat_length).
  pose proof (ceil_div_spec L D HD). unfold tau_uts in Hlen. nia.
Qed.

(* ---- 2. All sequences of n blocks, each once: what a uniform draw costs a policy ---- *)

Fixpoint words (n k : nat) : list (list nat) :=
  match n with 0 => [[]] | S n' => flat_map (fun x => map (cons x) (words n' k)) (seq 0 k) end.

Definition total {A} (f : A -> nat) (l : list A) : nat := list_sum (map f l).

Definition play (V : variant) (K tau : nat) (pol : list nat -> action) (h c bs : list nat) :=
  run V K c (acts pol h (blocks tau bs)).

Definition alg_cost (V : variant) (K tau D L : nat) (pol : list nat -> action) (h c bs : list nat) : nat :=
  match play V K tau pol h c bs with Some (_, m, z) => charged D L m z | None => 0 end.

(* A policy that obeys the rules on every sequence of blocks over 0..K, started with h requested and c held. *)
Definition obeys (V : variant) (K tau : nat) (pol : list nat -> action) (h c : list nat) : Prop :=
  forall bs, (forall x, In x bs -> x <= K) -> play V K tau pol h c bs <> None.

Lemma total_app : forall A (f : A -> nat) l1 l2, total f (l1 ++ l2) = total f l1 + total f l2.
Proof. intros. unfold total. now rewrite map_app, list_sum_app. Qed.

Lemma total_flat_map : forall A B (f : B -> nat) (g : A -> list B) l,
  total f (flat_map g l) = total (fun x => total f (g x)) l.
Proof.
  induction l as [| x r IH]; simpl; [ reflexivity |]. rewrite total_app, IH. reflexivity.
Qed.

Lemma total_map : forall A B (f : B -> nat) (g : A -> B) l, total f (map g l) = total (fun x => f (g x)) l.
Proof. intros. unfold total. now rewrite map_map. Qed.

Lemma total_le : forall A (f g : A -> nat) l, (forall x, In x l -> f x <= g x) -> total f l <= total g l.
Proof.
  induction l as [| x r IH]; unfold total in *; simpl; intros H; [ lia |].
  specialize (H x (or_introl eq_refl)) as H1.
  assert (forall y, In y r -> f y <= g y) as H2 by auto. specialize (IH H2). lia.
Qed.

Lemma total_ext : forall A (f g : A -> nat) l, (forall x, In x l -> f x = g x) -> total f l = total g l.
Proof.
  intros A f g l H. apply Nat.le_antisymm; apply total_le; intros x Hx; rewrite (H x Hx); lia.
Qed.

Lemma total_plus : forall A (f g : A -> nat) l, total (fun x => f x + g x) l = total f l + total g l.
Proof. induction l as [| x r IH]; unfold total in *; simpl; lia. Qed.

Lemma total_scale : forall A (f : A -> nat) k l, total (fun x => k * f x) l = k * total f l.
Proof. induction l as [| x r IH]; unfold total in *; simpl; lia. Qed.

Lemma total_const : forall A k (l : list A), total (fun _ => k) l = length l * k.
Proof. induction l as [| x r IH]; unfold total in *; simpl; lia. Qed.

Lemma words_length : forall n k, length (words n k) = k ^ n.
Proof.
  induction n as [| n IH]; intros k; [ reflexivity |]. simpl.
  assert (forall l : list nat, length (flat_map (fun x => map (cons x) (words n k)) l) = length l * k ^ n) as E.
  { induction l as [| x r IHl]; simpl; [ reflexivity |]. rewrite app_length, map_length, IH, IHl. lia. }
  rewrite E, seq_length. reflexivity.
Qed.

Lemma words_In : forall n k w, In w (words n k) -> forall x, In x w -> x < k.
Proof.
  induction n as [| n IH]; simpl; intros k w H x Hx.
  - destruct H as [<- | []]. destruct Hx.
  - apply in_flat_map in H as [y [Hy H]]. apply in_map_iff in H as [w' [<- Hw]].
    apply in_seq in Hy. destruct Hx as [<- | Hx]; [ lia | eauto ].
Qed.

Lemma total_words_S : forall n k (f : list nat -> nat),
  total f (words (S n) k) = total (fun x => total (fun w => f (x :: w)) (words n k)) (seq 0 k).
Proof.
  intros. cbn [words]. rewrite total_flat_map. apply total_ext. intros. now rewrite total_map.
Qed.

Lemma total_filter : forall A (b : A -> bool) l, total (fun x => if b x then 1 else 0) l = length (filter b l).
Proof.
  induction l as [| x r IH]; unfold total in *; simpl; [ reflexivity |]. destruct (b x); simpl; lia.
Qed.

(* What one block adds, and what the policy goes on with. *)
Lemma play_cons : forall V K tau pol h c x bs,
  play V K tau pol h c (x :: bs) =
  match run V K c (acts pol h (repeat x tau)) with
  | None => None
  | Some (c1, m1, z1) =>
      match play V K tau pol (rev (repeat x tau) ++ h) c1 bs with
      | None => None
      | Some (c2, m2, z2) => Some (c2, m1 + m2, z1 + z2)
      end
  end.
Proof. intros. unfold play. simpl. now rewrite acts_app, run_app. Qed.

(* The price of the least that a block costs when its first request misses: D + L, or L, as proved above. *)
Definition block_bound (V : variant) (K tau D L B : nat) : Prop :=
  forall q l c c1 m z, map fst l = repeat q tau -> held q c = false -> run V K c l = Some (c1, m, z) ->
  B <= charged D L m z.

Lemma average_block : forall V K tau D L B, block_bound V K tau D L B ->
  forall n pol h c, good K c -> obeys V K tau pol h c ->
  n * B * (K + 1) ^ n <= (K + 1) * total (alg_cost V K tau D L pol h c) (words n (K + 1)).
Proof.
  intros V K tau D L B HB. induction n as [| n IH]; intros pol h c G O; [ simpl; lia |].
  rewrite total_words_S.
  set (P := (K + 1) ^ n).
  (* per first item x: at least B per continuation if x is missing, and the induction hypothesis after it *)
  assert (forall x, In x (seq 0 (K + 1)) ->
     (if negb (held x c) then 1 else 0) * (B * ((K + 1) * P)) + n * B * P
     <= (K + 1) * total (fun w => alg_cost V K tau D L pol h c (x :: w)) (words n (K + 1))) as Hx.
  { intros x Hx. apply in_seq in Hx.
    destruct (run V K c (acts pol h (repeat x tau))) as [[[c1 m1] z1] |] eqn:R.
    2:{ exfalso. apply (O [x]); [ intros y [<- | []]; lia |]. rewrite play_cons, R. reflexivity. }
    assert (O1 : obeys V K tau pol (rev (repeat x tau) ++ h) c1).
    { intros bs Hbs C. apply (O (x :: bs)); [ intros y [<- | Hy]; [ lia | auto ] |].
      rewrite play_cons, R, C. reflexivity. }
    specialize (IH pol _ c1 (run_good _ _ _ _ _ _ _ R G) O1). fold P in IH.
    rewrite (total_ext _ _ (fun w => charged D L m1 z1 + alg_cost V K tau D L pol (rev (repeat x tau) ++ h) c1 w)).
    2:{ intros w Hw. unfold alg_cost. rewrite play_cons, R.
        destruct (play V K tau pol (rev (repeat x tau) ++ h) c1 w) as [[[c2 m2] z2] |] eqn:R2.
        - unfold charged. lia.
        - exfalso. apply (O1 w); [| assumption ]. intros y Hy. pose proof (words_In _ _ _ Hw y Hy). lia. }
    rewrite total_plus, total_const, words_length. fold P.
    destruct (held x c) eqn:E; simpl negb; cbv iota; [ lia |].
    assert (B <= charged D L m1 z1) as C by (eapply HB; [| eassumption | eassumption ]; apply acts_fst).
    apply (Nat.mul_le_mono_l _ _ ((K + 1) * P)) in C. lia. }
  apply total_le in Hx. rewrite total_plus, total_const, seq_length, total_scale in Hx.
  rewrite (total_ext _ _ (fun x => (B * ((K + 1) * P)) * (if negb (held x c) then 1 else 0))) in Hx by (intros; lia).
  rewrite total_scale, total_filter in Hx.
  pose proof (one_is_missing K c G) as M. unfold missing in M. replace (S K) with (K + 1) in M by lia.
  rewrite Nat.pow_succ_r' . fold P.
  apply (Nat.mul_le_mono_l _ _ (B * ((K + 1) * P))) in M. lia.
Qed.

Theorem average_block_stu : forall V K D L n pol,
  serves_first V = true -> 0 < D -> obeys V K (tau_stu D L) pol [] [] ->
  n * (D + L) * (K + 1) ^ n
  <= (K + 1) * total (alg_cost V K (tau_stu D L) D L pol [] []) (words n (K + 1)).
Proof.
  intros. apply average_block; [| split; [ constructor | simpl; lia ] | assumption ].
  intros q l c c1 m z Hl E R. eapply block_cost; eauto.
Qed.

Theorem average_block_uts : forall V K D L n pol,
  0 < D -> obeys V K (tau_uts D L) pol [] [] ->
  n * L * (K + 1) ^ n
  <= (K + 1) * total (alg_cost V K (tau_uts D L) D L pol [] []) (words n (K + 1)).
Proof.
  intros. apply average_block; [| split; [ constructor | simpl; lia ] | assumption ].
  intros q l c c1 m z Hl E R. eapply block_cost_uts; eauto.
Qed.
